"""Other gateways, over the wire: the connection, who we are to them, and the port over what they speak."""
