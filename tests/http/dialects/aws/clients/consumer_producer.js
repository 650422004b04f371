// sqs-producer sends, sqs-consumer handles: some messages fail once, and one can't be sent.
const { SQSClient, CreateQueueCommand } = require("@aws-sdk/client-sqs");
const { Consumer } = require("sqs-consumer");
const { Producer } = require("sqs-producer");

async function main() {
  const sqs = new SQSClient({});
  const { QueueUrl: queueUrl } = await sqs.send(new CreateQueueCommand({ QueueName: "consumed", Attributes: { VisibilityTimeout: "30" } }));
  const producer = Producer.create({ queueUrl, sqs });
  const handled = [], failed = new Set(), errors = [];
  const consumer = Consumer.create({
    queueUrl,
    sqs,
    batchSize: 10,
    waitTimeSeconds: 2,
    terminateVisibilityTimeout: true,
    heartbeatInterval: 1,
    visibilityTimeout: 5,
    attributeNames: ["ApproximateReceiveCount"],
    handleMessage: async (message) => {
      if (message.Body.endsWith("3") && !failed.has(message.Body)) {
        failed.add(message.Body);
        throw new Error("once");
      }
      handled.push([message.Body, Number(message.Attributes.ApproximateReceiveCount)]);
      if (handled.length === 25) finish();
      return message;
    },
  });
  let finish;
  const done = new Promise((resolve) => { finish = resolve; });
  consumer.on("error", (error) => errors.push(error.message));
  consumer.on("processing_error", () => {});
  consumer.start();

  const sent = await producer.send(Array.from({ length: 25 }, (_, number) => `message-${number}`));
  await done;
  const emptied = new Promise((resolve) => consumer.once("stopped", resolve));
  consumer.stop();
  await emptied;
  const refused = await producer.send([{ id: "bad", body: "\u0001" }]).then(() => null, (error) => error.message);
  process.stdout.write(JSON.stringify({ sent: sent.length, handled, errors, refused, left: await producer.queueSize() }));
}

main();
