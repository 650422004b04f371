"""Settings of Java and Spark for tests that run for seconds."""

QUICK_JAVA = {
    # Java compiles quickly rather than well, has room for all that it compiles (its own 48 MB are full after some
    # minutes, and it would compile again and again), and does not look for flaws in the classes of Spark's files.
    "spark.driver.extraJavaOptions": " ".join(
        [
            "-XX:TieredStopAtLevel=1",
            "-XX:ReservedCodeCacheSize=240m",
            "-XX:+UseSerialGC",
            "-XX:+UnlockDiagnosticVMOptions",
            "-XX:-BytecodeVerificationRemote",
        ]
    ),
    # For every column that a program names, Spark would ask which line of Python it was.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.dataFrameQueryContext.enabled": "false",
}
"""Settings without preparations that no test runs long enough to earn back. With all of them, it takes half the CPU."""
