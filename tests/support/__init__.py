"""Parts that the tests of several rooms share: databases, servers, endpoints, and wires that can be cut."""
