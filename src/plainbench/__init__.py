"""PlainBench: the lab that breaks a queue on purpose and measures it honestly. Needs the extra ``lab``."""
