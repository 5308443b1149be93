// SPDX-License-Identifier: Apache-2.0
// Sends requests by NS1's SDK: standard input is a list of {"of": "Record", "DataSource", "DataFeed" or
// "Zone", "do": "create", "update", "destroy", "feed" or "find", "with": attributes (or what to find),
// "values": what is pushed}, standard output the list of what came back, or of errors as texts.
// Arguments: folder of node_modules, address, key.
const { createRequire } = require("node:module");
const [folder, url, key] = process.argv.slice(2);
const sdk = createRequire(folder + "/")("ns1");
sdk.set_api_key(key);
sdk.set_api_url(url);

async function send({ of, do: act, with: attributes, values }) {
  const Kind = sdk[of];
  if (act === "find") {
    const found = await Kind.find(attributes);
    return Array.isArray(found) ? found.map((f) => f.attributes) : found.attributes;
  }
  const one = new Kind(attributes, act !== "create");
  if (act === "feed") return one.feed(values);
  if (act === "destroy") return one.destroy();
  return (await one.save()).attributes;
}

async function main() {
  let text = "";
  for await (const part of process.stdin) text += part;
  const out = [];
  for (const command of JSON.parse(text)) {
    out.push(await send(command).catch((error) => `error: ${error.message}`));
  }
  process.stdout.write(JSON.stringify(out));
}
main();
