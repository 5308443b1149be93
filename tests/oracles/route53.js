// SPDX-License-Identifier: Apache-2.0
// Sends commands by the official SDK: standard input is a list of {"command", "input"}, standard
// output the list of what came back.  {"sign": {"method", "path", "headers", "body"}} is not sent:
// what comes back is the Authorization header that the SDK's signer makes of it.
// Arguments: folder of node_modules, endpoint, key, secret, session token (may be left out).
const { createRequire } = require("node:module");
const [folder, endpoint, accessKeyId, secretAccessKey, sessionToken] = process.argv.slice(2);
const load = createRequire(folder + "/");
const sdk = load("@aws-sdk/client-route-53");
const { SignatureV4 } = load("@smithy/signature-v4");
const { Sha256 } = load("@aws-crypto/sha256-js");
const credentials = { accessKeyId, secretAccessKey, sessionToken };
const client = new sdk.Route53Client({ endpoint, region: "us-east-1", credentials, maxAttempts: 1 });
// The token is among the headers that are given, as it was sent.
const signer = new SignatureV4({
  service: "route53", region: "us-east-1", credentials: { accessKeyId, secretAccessKey }, sha256: Sha256, applyChecksum: false,
});

async function sign({ method, path, headers, body }) {
  const url = new URL(path, endpoint);
  const query = {};
  for (const [key, value] of url.searchParams) query[key] = value;
  const date = headers["x-amz-date"];
  const signingDate = new Date(date.replace(/^(....)(..)(..)T(..)(..)(..)Z$/, "$1-$2-$3T$4:$5:$6Z"));
  const request = { method, protocol: url.protocol, hostname: url.hostname, path: url.pathname, query, headers, body };
  return (await signer.sign(request, { signingDate })).headers.authorization;
}

async function main() {
  let text = "";
  for await (const part of process.stdin) text += part;
  const out = [];
  for (const { command, input, sign: request } of JSON.parse(text)) {
    try {
      if (request) {
        out.push(await sign(request));
        continue;
      }
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
