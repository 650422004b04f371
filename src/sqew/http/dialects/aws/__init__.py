"""What AWS's own clients speak: SQS and SNS, in JSON and in the older Query protocol."""
