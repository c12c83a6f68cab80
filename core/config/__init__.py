"""Configuration: the file as people write it (`schema`), how it is found and read (`load`), what the runtime gets."""
