// @aws-sdk/client-sqs: everything that one program may do with a queue. Prints what it saw, as JSON.
const sqs = require("@aws-sdk/client-sqs");

const client = new sqs.SQSClient({});
const call = (name, input) => client.send(new sqs[`${name}Command`](input));

async function name_of_error(promise) {
  try {
    await promise;
    return null;
  } catch (error) {
    return { name: error.name, code: error.Code, status: error.$metadata.httpStatusCode, typed: error instanceof sqs.SQSServiceException };
  }
}

async function main() {
  const seen = {};
  const { QueueUrl } = await call("CreateQueue", { QueueName: "from-javascript", tags: { team: "a" } });
  const MessageAttributes = {
    who: { DataType: "String", StringValue: "größer" },
    photo: { DataType: "Binary", BinaryValue: new Uint8Array([0, 1, 255]) },
  };
  // The client compares the MD5 of the body itself, here and on receive.
  const sent = await call("SendMessage", { QueueUrl, MessageBody: "größer 🎉", MessageAttributes });
  const batch = await call("SendMessageBatch", { QueueUrl, Entries: [
    { Id: "good", MessageBody: "x" },
    { Id: "late", MessageBody: "x", DelaySeconds: 901 },
  ] });
  seen.batch = [batch.Successful.map((entry) => entry.Id), batch.Failed.map((entry) => [entry.Id, entry.Code])];
  const asked = { QueueUrl, MaxNumberOfMessages: 10, MessageAttributeNames: ["All"], MessageSystemAttributeNames: ["All"] };
  const { Messages } = await call("ReceiveMessage", asked);
  const message = Messages.find((one) => one.MessageId === sent.MessageId);
  seen.body = message.Body;
  seen.attributes = [message.MessageAttributes.who.StringValue, Array.from(message.MessageAttributes.photo.BinaryValue)];
  seen.count = message.Attributes.ApproximateReceiveCount;
  const Entries = Messages.map((one, at) => ({ Id: `${at}`, ReceiptHandle: one.ReceiptHandle }));
  seen.deleted = (await call("DeleteMessageBatch", { QueueUrl, Entries })).Successful.length;
  seen.empty = (await call("ReceiveMessage", { QueueUrl })).Messages ?? null;
  seen.tags = (await call("ListQueueTags", { QueueUrl })).Tags;

  const waiting = call("ReceiveMessage", { QueueUrl, WaitTimeSeconds: 20 });
  await call("SendMessage", { QueueUrl, MessageBody: "wake up" });
  seen.woken = (await waiting).Messages[0].Body;

  for (const number of [1, 2, 3]) await call("CreateQueue", { QueueName: `javascript-page-${number}` });
  seen.pages = [];
  const listed = { client, pageSize: 2 };
  for await (const page of sqs.paginateListQueues(listed, { QueueNamePrefix: "javascript-page-" }))
    seen.pages.push(page.QueueUrls.length);

  const nowhere = QueueUrl.replace("from-javascript", "nowhere");
  seen.unknown = await name_of_error(call("SendMessage", { QueueUrl: nowhere, MessageBody: "x" }));
  seen.garbage = await name_of_error(call("DeleteMessage", { QueueUrl, ReceiptHandle: "garbage" }));
  process.stdout.write(JSON.stringify(seen));
}

main();
