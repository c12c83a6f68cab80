"""The watch screen, cut by what its parts are for; `screen` joins them."""
