// The page of the HTTP API: its operations from /openapi.json, each with a form that sends it.
"use strict";

function make(tag, text, attributes = {}) {
  const element = document.createElement(tag);
  if (text) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

function example(schema, schemas, depth = 0) {
  if (schema.$ref) schema = schemas[schema.$ref.split("/").pop()];
  const type = [].concat(schema.type)[0];
  if (schema.enum) return schema.enum[0];
  if (type === "object") {
    const known = Object.entries(schema.properties || {});
    return Object.fromEntries(known.map(([name, value]) => [name, depth > 3 ? null : example(value, schemas, depth + 1)]));
  }
  if (type === "array") return depth > 3 ? [] : [example(schema.items, schemas, depth + 1)];
  return {integer: 0, number: 0, boolean: false}[type] ?? "";
}

function showOperation(path, method, operation, schemas) {
  const box = make("details"), form = make("form", "", {class: "stacked gap-s"}), fields = {};
  box.append(make("summary", `${method.toUpperCase()} ${path}: ${operation.summary}`), form);
  operation.parameters.forEach((parameter) => {
    const id = `${operation.operationId}-${parameter.name}`;
    const input = make("input", "", {id, type: "text", autocomplete: "off", ...(parameter.required ? {required: ""} : {})});
    form.append(make("label", `${parameter.name} (${parameter.in})`, {for: id}), input);
    fields[parameter.name] = [parameter.in, input];
  });
  let body = null;
  if (operation.requestBody) {
    const id = `${operation.operationId}-body`;
    body = make("textarea", "", {id, rows: "8", spellcheck: "false"});
    body.value = JSON.stringify(example(operation.requestBody.content["application/json"].schema, schemas), null, 2);
    form.append(make("label", "body", {for: id}), body);
  }
  const answer = make("pre", "", {role: "status", tabindex: "0", "aria-label": "Answer"});
  form.append(make("button", "Send"), answer);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const headers = {Authorization: `Bearer ${document.getElementById("token").value}`}, query = new URLSearchParams();
    let address = path;
    for (const [name, [where, input]] of Object.entries(fields)) {
      if (where === "path") address = address.replace(`{${name}}`, encodeURIComponent(input.value).replaceAll("%2F", "/"));
      else if (input.value && where === "query") query.append(name, input.value);
      else if (input.value) headers[name] = input.value;
    }
    if (body) headers["Content-Type"] = "application/json";
    const sent = await fetch(`${address}?${query}`, {method: method.toUpperCase(), headers, body: body && body.value, credentials: "omit"});
    const text = await sent.text();
    let shown = text;
    try { shown = JSON.stringify(JSON.parse(text), null, 2); } catch { /* not JSON */ }
    answer.textContent = `${sent.status} ${sent.statusText}\n${shown}`;
  });
  return box;
}

async function showAll() {
  const description = await (await fetch("/openapi.json")).json(), list = document.getElementById("operations");
  for (const [path, methods] of Object.entries(description.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      list.append(showOperation(path, method, operation, description.components.schemas));
    }
  }
  document.getElementById("filter").addEventListener("input", (event) => {
    const words = event.target.value.toLowerCase();
    for (const box of list.children) box.hidden = !box.firstChild.textContent.toLowerCase().includes(words);
  });
}

showAll();
