// What coding agents send, in the order and the words in which they send it. The
// agents themselves are not needed: they sit on the clients used here.
import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import { anthropic, model, targets } from "./dialects.mjs";
import { gatewayKey, gatewayURL, mark, seen } from "./gateway.mjs";

const timed = async (run) => {
  const began = performance.now();
  const result = await run();
  const took = performance.now() - began;
  assert.ok(took < 3000, `it took ${took} ms`);
  return result;
};

// claudeCode is its client: a bearer token, and headers of its own.
const claudeCode = anthropic({
  apiKey: null, authToken: gatewayKey,
  defaultHeaders: { "x-app": "cli", "user-agent": "claude-cli/2.1.20 (external, cli)", "anthropic-dangerous-direct-browser-access": "true" },
});
const betas = [
  "claude-code-20250219", "interleaved-thinking-2025-05-14", "fine-grained-tool-streaming-2025-05-14",
  "context-management-2025-06-27", "prompt-caching-scope-2026-01-05", "effort-2025-11-24",
];
const ephemeral = { cache_control: { type: "ephemeral" } };
const names = ["Bash", "Read", "Edit", "Write", "Glob", "Grep", "Task", "TodoWrite", "WebFetch", "WebSearch", "NotebookEdit", "KillShell", "mcp__github__create_issue"];
const claudeTools = names.map((name) => ({
  name, description: `${name} does what it says.\n\nUsage:\n- "quote" paths that hold spaces`,
  input_schema: {
    $schema: "https://json-schema.org/draft/2020-12/schema", type: "object", required: ["command"], additionalProperties: false,
    properties: {
      command: { type: "string", minLength: 1 }, timeout: { type: "number", exclusiveMinimum: 0 },
      mode: { anyOf: [{ const: "fast" }, { const: "slow" }] }, todos: { type: "array", items: { type: "object", properties: { content: { type: "string" } }, required: ["content"] } },
    },
  },
}));
const claudeTurn = (slug, messages, ...faults) => ({
  model: model(slug, ...faults), messages, betas, max_tokens: 32000,
  system: [
    { type: "text", text: "x-anthropic-billing-header: cc_version=2.1.20" },
    { type: "text", text: "You are Claude Code, Anthropic's official CLI for Claude.", ...ephemeral },
    { type: "text", text: "You are an interactive agent.\n\n# Environment\nPlatform: linux", ...ephemeral },
  ],
  tools: claudeTools, thinking: { type: "enabled", budget_tokens: 31999 },
  metadata: { user_id: "user_0_account__session_00000000-0000-0000-0000-000000000000" },
});
const uses = (message) => message.content.filter((block) => block.type === "tool_use");

// works asks twice, and answers the calls of both questions. It returns what the
// provider saw at the end.
async function works(slug, question) {
  const messages = [{
    role: "user",
    content: [
      { type: "text", text: `<system-reminder>\nToday is Saturday.\n</system-reminder>` },
      { type: "text", text: question },
    ],
  }];
  const thoughts = [];
  // turn asks and adds the answer to the conversation.
  const turn = async (...faults) => {
    const runner = claudeCode.beta.messages.stream(claudeTurn(slug, messages, ...faults));
    let pieces = 0;
    const answer = await runner.on("inputJson", () => pieces++).finalMessage();
    assert.ok(pieces >= uses(answer).length, `${pieces} pieces of arguments`);
    thoughts.push(...answer.content.filter((block) => block.type === "thinking" && block.thinking));
    messages.push({ role: "assistant", content: answer.content });
    return answer;
  };
  for (let round = 0; ; round++) {
    const called = await turn("calls=2", "preface");
    assert.equal(called.stop_reason, "tool_use");
    assert.equal(uses(called).length, 2);
    const content = uses(called).map((use, i) => ({
      type: "tool_result", tool_use_id: use.id, is_error: i === 1,
      content: i === 1 ? "<tool_use_error>no such file</tool_use_error>" : [{ type: "text", text: "done" }],
    }));
    messages.push({ role: "user", content: [...content, { type: "text", text: "<system-reminder>The todo list is empty.</system-reminder>", ...ephemeral }] });
    const answer = await turn("report");
    if (round === 1) return { report: JSON.parse(answer.content.find((block) => block.type === "text").text), thoughts: thoughts.slice(0, -1) };
    messages.push({ role: "user", content: question });
  }
}

for (const [dialect, slug] of Object.entries(targets)) {
  test(`Claude Code works on ${dialect}`, async () => {
    const question = mark("fix the bug");
    const { report, thoughts } = await works(slug, question);
    assert.deepEqual(report.tools, names);
    assert.match(report.system, /You are Claude Code[^]*# Environment/);
    assert.equal(report.calls.length, 4);
    assert.deepEqual(report.results.map((result) => result.text.includes("no such file")), [false, true, false, true]);
    if (["messages", "claude"].includes(dialect)) {
      assert.equal(report.thinking.length, 3);
      assert.deepEqual(report.thinking.map((t) => t.signature), thoughts.map((t) => t.signature));
      assert.equal(report.cache_points, 4);
    }
  });

  test(`Claude Code brings 200,000 tokens to ${dialect}`, async () => {
    const question = mark("long");
    const text = "All work and no play makes Jack a dull boy. ".repeat(18_000);
    const messages = [{ role: "user", content: text }, { role: "assistant", content: "Go on." }, { role: "user", content: question }];
    const answer = await timed(() => claudeCode.beta.messages.stream(claudeTurn(slug, messages)).finalMessage());
    assert.equal(answer.stop_reason, "tool_use");
    assert.ok((await seen(question))[0].body.includes(text), "the text is not whole");
  });
}

test("flags of betas reach the provider they are for, and no other", async () => {
  const flags = {};
  for (const slug of ["ant", "claude", "gem", "chat"]) {
    const question = mark("flags");
    await claudeCode.beta.messages.create({ ...claudeTurn(slug, [{ role: "user", content: question }]), stream: false });
    const [request] = await seen(question);
    flags[slug] = request.headers["anthropic-beta"] ?? JSON.parse(request.body).anthropic_beta;
  }
  assert.deepEqual(flags.ant.split(",").map((flag) => flag.trim()).sort(), betas.toSorted());
  assert.deepEqual(flags.claude, ["interleaved-thinking-2025-05-14", "context-management-2025-06-27", "effort-2025-11-24"]);
  assert.deepEqual([flags.gem, flags.chat], [undefined, undefined]);
});

test("Claude Code counts tokens and lists models", async () => {
  const { max_tokens, metadata, ...counted } = claudeTurn("ant", [{ role: "user", content: "count" }]);
  const { input_tokens } = await timed(() => claudeCode.beta.messages.countTokens(counted));
  assert.ok(input_tokens > 100);
  const page = await timed(() => claudeCode.beta.models.list({ limit: 1000 }));
  assert.ok(page.data.some((each) => each.id === "@ant/sim-1" && each.display_name));
});

test("Claude Code asks whether the quota allows one token", async () => {
  const answer = await claudeCode.beta.messages.create({ model: model("ant"), max_tokens: 1, messages: [{ role: "user", content: "quota" }], metadata: { user_id: "u" } });
  assert.equal(answer.stop_reason, "max_tokens");
});

// codex is the client of Codex, which speaks responses alone.
const codex = new OpenAI({
  baseURL: gatewayURL, apiKey: gatewayKey, maxRetries: 0,
  defaultHeaders: { originator: "codex_cli_rs", version: "0.80.0", session_id: "0199-0000", "user-agent": "codex_cli_rs/0.80.0 (Linux)", "openai-beta": "responses=experimental" },
});
const shell = { type: "function", name: "shell", strict: false, description: "Runs a command.", parameters: { type: "object", properties: { command: { type: "array", items: { type: "string" } }, workdir: { type: "string" } }, required: ["command"], additionalProperties: false } };
const patch = { type: "custom", name: "apply_patch", description: "Edits files.", format: { type: "grammar", syntax: "lark", definition: "start: \"*** Begin Patch\" LF \"*** End Patch\" LF?" } };
const codexTurn = (slug, input, tools, ...faults) => ({
  model: model(slug, ...faults), input, tools, stream: true, store: false,
  instructions: "You are Codex, a coding agent.", tool_choice: "auto", parallel_tool_calls: false,
  reasoning: { effort: "medium", summary: "auto" }, include: ["reasoning.encrypted_content"],
  prompt_cache_key: "0199-0000", text: { verbosity: "low" },
});
const message = (role, ...texts) => ({ type: "message", role, content: texts.map((text) => ({ type: "input_text", text })) });

// listens reads a stream as Codex does: by its finished items and its end.
async function listens(params) {
  const items = [];
  let completed;
  for await (const event of await codex.responses.create(params)) {
    if (event.type === "response.output_item.done") items.push(event.item);
    if (event.type === "response.completed") completed = event.response;
  }
  assert.ok(completed?.usage.total_tokens > 0, "no end with its usage");
  return items;
}

for (const [dialect, slug] of Object.entries(targets)) {
  for (const [tool, call, output] of [[shell, "function_call", "function_call_output"], [patch, "custom_tool_call", "custom_tool_call_output"]]) {
    if (slug === "sim" && tool === patch) continue; // bytes pass there, and the simulator calls no custom tools
    test(`Codex works on ${dialect} with a ${tool.type} tool`, async () => {
      const question = mark("fix the bug");
      const input = [
        message("developer", "<permissions>all</permissions>"),
        message("user", "<environment_context>\n<cwd>/</cwd>\n</environment_context>"), message("user", question),
      ];
      const items = await listens(codexTurn(slug, input, [tool]));
      const made = items.filter((item) => item.type === call);
      assert.deepEqual(made.map((item) => item.name), [tool.name], JSON.stringify(items));
      assert.ok(tool === shell ? JSON.parse(made[0].arguments).command : made[0].input);
      if (["openai", "messages", "claude"].includes(dialect)) assert.ok(items[0].type === "reasoning" && items[0].encrypted_content, JSON.stringify(items[0]));
      input.push(...items, { type: output, call_id: made[0].call_id, output: "Exit code: 0\nOutput:\nok" });
      const last = await listens(codexTurn(slug, input, [tool], "report"));
      const report = JSON.parse(last.find((item) => item.type === "message").content[0].text);
      assert.deepEqual(report.calls.map((each) => each.name), [tool.name]);
      assert.deepEqual(report.results.map((each) => each.text.includes("ok")), [true]);
      assert.match(report.system, /You are Codex/);
      if (["openai", "messages", "claude"].includes(dialect)) assert.equal(report.thinking.length, 1);
    });
  }
}

test("tools that a provider runs itself reach it as they stand, and are told or refused elsewhere", async () => {
  const tools = [shell, { type: "local_shell" }, { type: "web_search", external_web_access: true }];
  for (const slug of Object.values(targets)) {
    const question = mark("tools");
    const { response } = await codex.responses.create(codexTurn(slug, [message("user", question)], tools)).withResponse().catch((error) => ({ response: error }));
    if (slug === "sim") assert.deepEqual(JSON.parse((await seen(question))[0].body).tools, tools);
    else if (response.status === 400) assert.match(response.message, /local_shell|web_search|tools/);
    else assert.match(response.headers.get("x-gateway-params") ?? "", /tools/);
  }
});

test("Codex lists models", async () => {
  const page = await timed(() => codex.models.list({ query: { client_version: "0.80.0" } }));
  assert.ok(page.data.some((each) => each.id === "@sim/sim-1"));
});
