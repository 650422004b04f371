// @aws-sdk/client-sns: a topic with two queues, one of which asks for less. Prints what it saw, as JSON.
const sns = require("@aws-sdk/client-sns");
const sqs = require("@aws-sdk/client-sqs");

const topics = new sns.SNSClient({}), queues = new sqs.SQSClient({});
const tell = (name, input) => topics.send(new sns[`${name}Command`](input));
const ask = (name, input) => queues.send(new sqs[`${name}Command`](input));

async function queue(QueueName) {
  const { QueueUrl } = await ask("CreateQueue", { QueueName });
  const { Attributes } = await ask("GetQueueAttributes", { QueueUrl, AttributeNames: ["QueueArn"] });
  return { QueueUrl, Endpoint: Attributes.QueueArn };
}

async function main() {
  const seen = {};
  const { TopicArn } = await tell("CreateTopic", { Name: "javascript-news", Tags: [{ Key: "team", Value: "a" }] });
  const all = await queue("javascript-all"), some = await queue("javascript-some");
  await tell("Subscribe", { TopicArn, Protocol: "sqs", Endpoint: all.Endpoint });
  const Attributes = { RawMessageDelivery: "true", FilterPolicy: JSON.stringify({ kind: ["big"] }) };
  await tell("Subscribe", { TopicArn, Protocol: "sqs", Endpoint: some.Endpoint, Attributes, ReturnSubscriptionArn: true });
  const MessageAttributes = { kind: { DataType: "String", StringValue: "big" } };
  const { MessageId } = await tell("Publish", { TopicArn, Message: "größer 🎉", Subject: "news", MessageAttributes });
  const batch = await tell("PublishBatch", { TopicArn, PublishBatchRequestEntries: [
    { Id: "a", Message: "small" },
    { Id: "b", Message: "refused", MessageStructure: "json" },
  ] });
  seen.batch = [batch.Successful.map((entry) => entry.Id), batch.Failed.map((entry) => entry.Id)];

  const receive = async (from) => (await ask("ReceiveMessage", { QueueUrl: from.QueueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 5, MessageAttributeNames: ["All"] })).Messages;
  const notices = (await receive(all)).map((message) => JSON.parse(message.Body));
  seen.notices = notices.map((notice) => [notice.Type, notice.Message, notice.Subject ?? null, notice.TopicArn === TopicArn]);
  seen.same = notices[0].MessageId === MessageId;
  seen.raw = (await receive(some)).map((message) => [message.Body, message.MessageAttributes.kind.StringValue]);

  seen.subscriptions = 0;
  for await (const page of sns.paginateListSubscriptionsByTopic({ client: topics }, { TopicArn }))
    seen.subscriptions += page.Subscriptions.length;
  seen.tags = (await tell("ListTagsForResource", { ResourceArn: TopicArn })).Tags;
  const unknown = await tell("Publish", { TopicArn: `${TopicArn}-not`, Message: "x" }).then(() => null, (error) => error);
  seen.unknown = [unknown.name, unknown.$metadata.httpStatusCode, unknown instanceof sns.NotFoundException];
  process.stdout.write(JSON.stringify(seen));
}

main();
