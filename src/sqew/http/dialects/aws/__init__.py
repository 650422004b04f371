"""The protocols of AWS's own clients: SQS and SNS, in JSON and in the older Query protocol."""
