"""HTTP/1.1 to one server over connections that are kept: in threads (`sockets`) and in an event loop (`streams`)."""
