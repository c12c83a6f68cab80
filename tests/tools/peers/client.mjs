// Follows one turn on a gateway with OpenClaw's client library, and prints what it heard as JSON.
import { randomUUID } from "node:crypto";
import { GatewayClient } from "@openclaw/gateway-client";

const [url, token] = process.argv.slice(2);
const heard = { gaps: 0, events: [] };
const runId = randomUUID();
let ended;
const finished = new Promise((resolve) => (ended = resolve));

const client = await new Promise((resolve, reject) => {
  const opening = new GatewayClient({
    url,
    token,
    clientName: "gateway-client",
    mode: "backend",
    scopes: ["operator.read", "operator.write", "operator.admin"],
    caps: ["tool-events"],
    deviceIdentity: null,
    onHelloOk: (hello) => {
      heard.protocol = hello.protocol;
      resolve(opening);
    },
    onConnectError: reject,
    onGap: () => (heard.gaps += 1),
    onEvent: (frame) => {
      heard.events.push(frame.event);
      if (frame.event === "chat" && frame.payload.runId === runId && frame.payload.state === "final") {
        heard.final = frame.payload.message.content[0].text;
        ended();
      }
    },
  });
  opening.start();
});
await client.request("sessions.subscribe", {});
await client.request("chat.send", { sessionKey: "main", message: "say one two three", idempotencyKey: runId });
await finished;
heard.waited = await client.request("agent.wait", { runId, timeoutMs: 5000 });
heard.rows = (await client.request("sessions.list", {})).sessions.map((row) => row.key);
await client.stopAndWait();
console.log(JSON.stringify(heard));
