// A request as it is written in the form: its URL, its curl line, and sending it.

/** Where it goes. A parameter of the path that is empty stays as it is written in the pattern. */
export function urlOf(request) {
  const path = request.pattern.replace(/\{(\w+)\}/g, (whole, name) => encodeURIComponent(request.path[name] ?? "") || whole);
  const given = Object.entries(request.query).filter(([, value]) => value !== "");
  return path + (given.length ? `?${new URLSearchParams(given)}` : "");
}

/** The same as a line for a shell. The token is not in it: lines get shared. */
export function curlOf(request) {
  const parts = ["curl"];
  if (request.streams) parts.push("-N");
  if (request.method !== "GET") parts.push("-X", request.method);
  parts.push(quoted(location.origin + urlOf(request)));
  if (request.token) parts.push("-H", '"Authorization: Bearer $TOKEN"');
  for (const [name, value] of headersOf(request)) parts.push("-H", quoted(`${name}: ${value}`));
  if (request.body) parts.push("-d", quoted(oneLine(request.body)));
  return parts.join(" ");
}

function headersOf(request) {
  const given = Object.entries(request.headers).filter(([, value]) => value !== "");
  return request.body ? [["Content-Type", request.contentType], ...given] : given;
}

function oneLine(body) {
  try {
    return JSON.stringify(JSON.parse(body));
  } catch {
    return body;
  }
}

function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Sends it; calls back with the head of the answer, and with its text as far as it has come. */
export async function send(request, signal, onHead, onText) {
  const headers = new Headers(headersOf(request));
  if (request.token) headers.set("Authorization", `Bearer ${request.token}`);
  const started = performance.now();
  const answer = await fetch(urlOf(request), { method: request.method, headers, body: request.body || undefined, signal });
  onHead(answer, Math.round(performance.now() - started));
  if (!answer.body) return;
  let text = "";
  const decoder = new TextDecoder();
  const reader = answer.body.getReader();
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
    text += decoder.decode(piece.value, { stream: true });
    onText(text);
  }
}
