"""What tests of several parts share: runtimes, stores, servers, a clock moved by hand, a scripted model endpoint."""
