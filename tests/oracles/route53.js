// SPDX-License-Identifier: Apache-2.0
// Sends commands by the official SDK: standard input is a list of {"command", "input"}, standard
// output the list of what came back.  Arguments: folder of node_modules, endpoint, key, secret.
const { createRequire } = require("node:module");
const [folder, endpoint, accessKeyId, secretAccessKey] = process.argv.slice(2);
const sdk = createRequire(folder + "/")("@aws-sdk/client-route-53");
const client = new sdk.Route53Client({
  endpoint, region: "us-east-1", credentials: { accessKeyId, secretAccessKey }, maxAttempts: 1,
});

async function main() {
  let text = "";
  for await (const part of process.stdin) text += part;
  const out = [];
  for (const { command, input } of JSON.parse(text)) {
    try {
      const reply = await client.send(new sdk[command + "Command"](input));
      delete reply.$metadata;
      out.push(reply);
    } catch (error) {
      out.push({ error: error.name, message: error.message, status: error.$metadata?.httpStatusCode });
    }
  }
  process.stdout.write(JSON.stringify(out));
}
main();
