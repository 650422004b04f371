"""Background: the loops beside a server, which fire, post, move and promote."""
