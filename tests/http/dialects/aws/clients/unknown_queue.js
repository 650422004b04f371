// What sqs-consumer says of a queue that is not there.
const { SQSClient } = require("@aws-sdk/client-sqs");
const { Consumer } = require("sqs-consumer");

const queueUrl = `${process.env.AWS_ENDPOINT_URL}/000000000000/nowhere`;
const consumer = Consumer.create({ queueUrl, sqs: new SQSClient({}), handleMessage: async () => {} });
consumer.on("error", (error) => {
  consumer.stop();
  process.stdout.write(JSON.stringify({ code: error.code, status: error.statusCode }));
});
consumer.start();
