"""How Java is started in tests."""

QUICK_JAVA = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
"""It compiles quickly rather than well: no test runs for long enough to earn more. All takes half of the CPU's time."""
