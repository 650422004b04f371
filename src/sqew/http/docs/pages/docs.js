// The page at /docs: every route of openapi.json, with its fields and a form to try it.

import { curlOf, send, urlOf } from "./request.js";
import { notesOf, requiredFirst, rowsOf, typeOf } from "./schema.js";

const LONGEST_SHOWN = 200_000;
const METHODS = ["get", "post", "put", "patch", "delete"];
const STREAMED = ["text/event-stream", "application/x-ndjson"];
const page = (id) => document.getElementById(id);
const changed = new EventTarget();

/** An element with attributes (or listeners, given as functions) and children. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== false && value !== undefined) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

/** Text in which what stands between backticks is code. */
function prose(text) {
  return text.split("`").map((part, at) => (at % 2 ? make("code", {}, part) : part));
}

function badge(method) {
  return make("span", { class: `method ${method}` }, method.toUpperCase());
}

// The routes

function operationsOf(spec) {
  return Object.entries(spec.paths).flatMap(([pattern, methods]) =>
    METHODS.filter((method) => method in methods).flatMap((method) => waysOf({ ...methods[method], method, pattern })),
  );
}

/** An operation, once for each dialect that has a way of its own to ask for it. */
function waysOf(operation) {
  if (!operation["x-ways"]) return [operation];
  return operation["x-ways"].map((way, at) => ({
    ...operation,
    operationId: at ? `${operation.operationId}_${way.tag.toLowerCase()}` : operation.operationId,
    tags: [way.tag],
    summary: way.summary,
    description: way.description,
    parameters: operation.parameters
      .filter((parameter) => parameter.in === "path" || way.parameters.includes(parameter.name))
      // What tells the two apart must be there.
      .map((parameter) => ({ ...parameter, required: parameter.required || parameter.name === way.parameters[0] })),
    requestBody: way.requestBody ? { ...operation.requestBody, required: true } : undefined,
    responses: Object.fromEntries(way.responses.map((status) => [status, operation.responses[status]])),
  }));
}

function scopeOf(operation) {
  return operation.security.length ? Object.values(operation.security[0])[0][0] : "open";
}

function section(tag, operations, spec) {
  return make(
    "section",
    { class: "dialect", id: `dialect-${tag.name}` },
    make("h2", {}, tag.name),
    make("p", {}, prose(tag.description)),
    operations.map((operation) => card(operation, spec)),
  );
}

function card(operation, spec) {
  const details = make(
    "details",
    { class: "route", id: operation.operationId, toggle: () => details.open && fill() },
    make(
      "summary",
      {},
      badge(operation.method),
      make("code", { class: "path" }, breakable(operation.pattern)),
      make("span", { class: "told" }, prose(operation.summary)),
    ),
  );
  // The forms of some sixty routes are not needed to read the list of them.
  function fill() {
    if (details.children.length === 1) details.append(inside(operation, spec));
  }
  return details;
}

/** A path that may be broken after each slash. */
function breakable(pattern) {
  return pattern.split("/").flatMap((part, at) => (at ? ["/", make("wbr"), part] : [part]));
}

function inside(operation, spec) {
  const scope = scopeOf(operation);
  const allowed = scope === "open" ? "Anybody may ask." : `A key needs the scope ${scope}.`;
  return make(
    "div",
    { class: "inside" },
    make("p", {}, prose(operation.description ?? ""), operation.description ? " " : "", make("span", { class: "quiet" }, allowed)),
    parameters(operation, spec),
    bodyFields(operation, spec),
    answers(operation, spec),
    form(operation, spec),
  );
}

function parameters(operation, spec) {
  const rows = requiredFirst(operation.parameters ?? []).map((parameter) => ({
    name: parameter.name,
    depth: 0,
    type: `${typeOf(parameter.schema, spec)}, ${parameter.in}`,
    notes: notesOf(parameter.schema),
    required: parameter.required,
    description: parameter.description ?? "",
  }));
  return rows.length ? [make("h3", {}, "Parameters"), table(rows)] : [];
}

function bodyFields(operation, spec) {
  if (!operation.requestBody) return [];
  const [[type, content]] = Object.entries(operation.requestBody.content);
  const optional = operation.requestBody.required ? "" : ", may be left out";
  const what = type === "application/json" ? typeOf(content.schema, spec) : "lines of JSON";
  return [
    make("h3", {}, "Body ", make("span", { class: "quiet" }, `${type}: ${what}${optional}`)),
    table(rowsOf(content.schema, spec)),
  ];
}

function answers(operation, spec) {
  const told = Object.entries(operation.responses).filter(([status]) => status !== "default");
  return [
    make("h3", {}, "Answers"),
    told.map(([status, answer]) => {
      const [type, content] = Object.entries(answer.content ?? {})[0] ?? ["", null];
      const what = !content ? "no body" : type === "application/json" ? typeOf(content.schema, spec) : type;
      const rows = content ? rowsOf(content.schema, spec) : [];
      const line = [make("b", {}, status), ` ${answer.description}: `, make("code", {}, what)];
      return rows.length ? make("details", { class: "answer" }, make("summary", {}, line), table(rows)) : make("p", { class: "answer" }, line);
    }),
    make("p", { class: "answer" }, make("b", {}, "4xx, 5xx"), " What is wrong: ", make("a", { href: "#errors" }, "see Errors"), "."),
  ];
}

function table(rows) {
  if (!rows.length) return "";
  return make(
    "div",
    { class: "fields", role: "table" },
    rows.map((row) =>
      make(
        "div",
        { class: `field depth-${row.depth}`, role: "row" },
        make("span", { role: "cell" }, make("code", {}, row.name), row.required ? make("span", { class: "required", title: "required" }, " required") : ""),
        make("span", { class: "type", role: "cell" }, row.type, row.notes.map((note) => make("small", {}, note))),
        make("span", { role: "cell" }, prose(row.description)),
      ),
    ),
  );
}

// Trying

function form(operation, spec) {
  const inputs = requiredFirst(operation.parameters ?? []).map((parameter) => ({ parameter, input: inputFor(operation, parameter) }));
  const [type, content] = Object.entries(operation.requestBody?.content ?? {})[0] ?? ["", null];
  const examples = Object.entries(content?.examples ?? {});
  const body = content ? make("textarea", { id: `${operation.operationId}-body`, rows: 5, spellcheck: "false", input: show }) : null;
  if (body && examples.length && operation.requestBody.required) body.value = pretty(examples[0][1].value);
  const line = make("code", {});
  const result = make("div", { class: "result", "aria-live": "polite" });
  const button = make("button", { type: "submit", class: operation.method === "delete" ? "danger" : "" }, "Send");

  function request() {
    const of = (place) => Object.fromEntries(inputs.filter(({ parameter }) => parameter.in === place).map(({ parameter, input }) => [parameter.name, input.value]));
    return {
      method: operation.method.toUpperCase(),
      pattern: operation.pattern,
      path: of("path"),
      query: of("query"),
      headers: of("header"),
      body: body?.value.trim() ?? "",
      contentType: type,
      token: scopeOf(operation) === "open" ? "" : page("token").value,
      streams: streams(operation),
    };
  }

  function show() {
    line.textContent = curlOf(request());
  }

  changed.addEventListener("token", show);
  inputs.forEach(({ input }) => input.addEventListener("input", show));
  show();
  return make(
    "form",
    { novalidate: true, submit: (event) => { event.preventDefault(); attempt(request(), button, result); } },
    make("h3", {}, "Try it"),
    make("div", { class: "inputs" }, inputs.map(({ parameter, input }) => make("label", {}, make("span", {}, parameter.name, make("i", {}, ` ${parameter.in}`)), input))),
    body ? bodyBox(operation, body, examples, show) : "",
    make("div", { class: "line" }, make("pre", { tabindex: 0, "aria-label": "The same with curl" }, line), copyButton(() => line.textContent)),
    make("div", { class: "send" }, button),
    result,
  );
}

function streams(operation) {
  return Object.values(operation.responses).some((answer) => STREAMED.includes(Object.keys(answer.content ?? {})[0]));
}

function inputFor(operation, parameter) {
  const { schema } = parameter;
  const example = schema.examples?.[0];
  if (schema.type === "boolean") {
    return make("select", { name: parameter.name }, ["", "true", "false"].map((value) => make("option", { value }, value || `default (${schema.default})`)));
  }
  const input = make("input", {
    name: parameter.name,
    autocomplete: "off",
    spellcheck: "false",
    inputmode: schema.type === "integer" ? "numeric" : undefined,
    placeholder: String(schema.default ?? (parameter.required ? parameter.name : "")),
  });
  if (parameter.required && example !== undefined) input.value = example;
  return input;
}

function bodyBox(operation, body, examples, show) {
  const pick = ([name, { value }]) =>
    make("button", { type: "button", class: "plain", click: () => { body.value = pretty(value); show(); } }, name === "one" ? "example" : "example of several");
  return make(
    "div",
    { class: "body" },
    make("label", { for: body.id }, "Body"),
    examples.map(pick),
    body,
  );
}

function copyButton(text) {
  const button = make("button", { type: "button", class: "plain", click: copy }, "Copy");
  async function copy() {
    try {
      await navigator.clipboard.writeText(text());
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select it and copy";
    }
    setTimeout(() => (button.textContent = "Copy"), 1500);
  }
  return button;
}

async function attempt(request, button, result) {
  if (button.stop) return button.stop();
  if (request.method === "DELETE" && !button.dataset.sure) return askFirst(request, button);
  delete button.dataset.sure;
  const controller = new AbortController();
  const output = make("pre", { tabindex: 0 });
  button.stop = () => controller.abort();
  button.textContent = "Stop";
  result.replaceChildren(make("p", { class: "quiet" }, `${request.method} ${urlOf(request)} …`));
  try {
    await send(request, controller.signal, (answer, ms) => result.replaceChildren(head(answer, ms), output), (text) => {
      output.textContent = readable(text);
    });
    if (!output.textContent) output.remove();
  } catch (error) {
    const why = controller.signal.aborted ? "Stopped." : `No answer: ${error.message}. Is the server still running?`;
    result.append(make("p", { class: "quiet" }, why));
  } finally {
    button.stop = null;
    button.textContent = "Send";
  }
}

function askFirst(request, button) {
  button.dataset.sure = "yes";
  button.textContent = `Really ${request.method} ${urlOf(request)}?`;
  setTimeout(() => {
    if (!button.dataset.sure) return;
    delete button.dataset.sure;
    button.textContent = "Send";
  }, 5000);
}

function head(answer, ms) {
  const kind = answer.ok ? "good" : "bad";
  const headers = [...answer.headers].map(([name, value]) => `${name}: ${value}`).join("\n");
  return make(
    "div",
    {},
    make("p", {}, make("b", { class: `status ${kind}` }, `${answer.status} ${answer.statusText}`), make("span", { class: "quiet" }, ` in ${ms} ms`)),
    make("details", { class: "answer" }, make("summary", {}, "Headers"), make("pre", { tabindex: 0 }, headers)),
  );
}

function pretty(value) {
  return JSON.stringify(value, null, 2);
}

function readable(text) {
  if (text.length > LONGEST_SHOWN) return `${text.slice(0, LONGEST_SHOWN)}\n… (${text.length} characters; only the beginning is shown)`;
  try {
    // Ids may be larger than a JavaScript number can say: such a text is shown as it came.
    return /\d{16}/.test(text) ? text : pretty(JSON.parse(text));
  } catch {
    return text;
  }
}

// Around the routes

function access(spec) {
  return make(
    "section",
    { class: "dialect", id: "access" },
    make("h2", {}, "Access"),
    Object.values(spec.components.securitySchemes).map((scheme) =>
      make("p", {}, make("code", {}, scheme.scheme ? "Authorization: Bearer TOKEN" : `${scheme.name}: KEY`), " ", prose(scheme.description)),
    ),
  );
}

function errorTable(spec) {
  return make(
    "section",
    { class: "dialect", id: "errors" },
    make("h2", {}, "Errors"),
    make("p", {}, "A refusal says what to do in a sentence, and names what is wrong in a word that does not change: its code. Each dialect puts them in its own shape."),
    make(
      "div",
      { class: "fields errors", role: "table" },
      spec["x-errors"].map((error) =>
        make("div", { class: "field", role: "row" }, make("b", { role: "cell" }, String(error.status)), make("code", { role: "cell" }, error.code), make("span", { role: "cell" }, prose(error.description))),
      ),
    ),
  );
}

function navigation(groups) {
  return groups.map(({ tag, operations }) =>
    make(
      "div",
      { class: "group" },
      make("a", { class: "title", href: `#dialect-${tag.name}` }, tag.name),
      operations.map((operation) =>
        make("a", { href: `#${operation.operationId}`, "data-for": operation.operationId }, badge(operation.method), make("span", {}, breakable(operation.pattern))),
      ),
    ),
  );
}

function filter(operations) {
  const words = page("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const operation of operations) {
    const text = `${operation.method} ${operation.pattern} ${operation.summary} ${operation.tags[0]}`.toLowerCase();
    const hidden = !words.every((word) => text.includes(word));
    page(operation.operationId).hidden = hidden;
    document.querySelector(`nav [data-for="${operation.operationId}"]`).hidden = hidden;
  }
  for (const group of document.querySelectorAll("section.dialect, nav .group")) {
    const entries = [...group.querySelectorAll("details.route, [data-for]")];
    group.hidden = words.length > 0 && entries.every((entry) => entry.hidden);
  }
  showHits(words, operations.filter((operation) => !page(operation.operationId).hidden));
}

/** Says how many routes are left, and brings the first into sight. */
function showHits(words, hits) {
  page("hits").textContent = !words.length ? "" : hits.length === 1 ? "1 route" : `${hits.length || "No"} routes`;
  page("none").hidden = hits.length > 0;
  page("top").hidden = words.length > 0;
  page("nav").scrollTop = 0;
  if (words.length && hits.length) firstOf(hits).scrollIntoView({ block: "start" });
  else scrollTo({ top: 0 });
}

/** The heading above the first route: with it, one sees whose route it is. */
function firstOf(hits) {
  return page(hits[0].operationId).closest("section");
}

function openNamed() {
  const named = page(decodeURIComponent(location.hash.slice(1)));
  if (!named) return;
  if (named.matches("details.route")) named.open = true;
  named.scrollIntoView({ block: "start" });
}

function setUpTheme() {
  const kept = localStorage.getItem("theme");
  const dark = () => document.documentElement.dataset.theme === "dark";
  const label = () => (page("theme").textContent = dark() ? "Light" : "Dark");
  document.documentElement.dataset.theme = kept ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  label();
  page("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    localStorage.setItem("theme", document.documentElement.dataset.theme);
    label();
  });
}

function setUpKeys() {
  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input, textarea, select");
    if (event.key === "/" && !typing) {
      event.preventDefault();
      page("filter").focus();
    }
    if (event.key === "Escape" && typing) event.target.blur();
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.target.form?.requestSubmit();
  });
}

async function start() {
  setUpTheme();
  setUpKeys();
  const answer = await fetch("/v1/openapi.json");
  if (!answer.ok) throw new Error(`openapi.json was answered with ${answer.status}`);
  const spec = await answer.json();
  const operations = operationsOf(spec);
  const groups = spec.tags.map((tag) => ({ tag, operations: operations.filter((operation) => operation.tags.includes(tag.name)) }));
  page("version").textContent = spec.info.version;
  page("about").replaceChildren(...prose(spec.info.description), " ", make("a", { href: "/v1/openapi.json" }, "openapi.json"));
  page("main").append(...groups.map(({ tag, operations }) => section(tag, operations, spec)), access(spec), errorTable(spec));
  page("nav").append(...navigation(groups), make("div", { class: "group" }, ["Access", "Errors"].map((name) => make("a", { class: "title", href: `#${name.toLowerCase()}` }, name))));
  page("filter").addEventListener("input", () => filter(operations));
  page("token").addEventListener("input", () => changed.dispatchEvent(new Event("token")));
  addEventListener("hashchange", openNamed);
  openNamed();
}

start().catch((error) => {
  page("about").textContent = `The description of this server can't be read (${error.message}). Reload the page once it runs.`;
});
