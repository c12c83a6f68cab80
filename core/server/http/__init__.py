"""Over HTTP: routes, answers, event streams, and the socket that they share with WebSockets."""
