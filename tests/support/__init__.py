"""What tests share: a clock moved by hand (`clock`) and a model endpoint on loopback (`model_server`)."""
