const make = (tag, text, parent) => {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (parent) parent.append(node);
  return node;
};
// Text in which words between backticks are code.
const prose = (text, parent) => text.split('`').forEach((part, n) => {
  if (n % 2) make('code', part, parent); else parent.append(part);
});
// Order of the tags; unknown tags come last.
const order = ['jobs', 'work', 'queues', 'schedules', 'limits', 'groups', 'server', 'tokens', 'lightjq'];
const place = tag => (order.indexOf(tag) + order.length + 1) % (order.length + 1);
let schemas = {};
const resolve = schema => schema && schema.$ref ? resolve(schemas[schema.$ref.split('/').pop()]) : schema;

// A minimal sample body: required fields only.
const sample = (schema, depth = 0) => {
  schema = resolve(schema);
  if (!schema || depth > 6) return null;
  if (schema.example !== undefined) return schema.example;
  if (schema.examples && schema.examples.length) return schema.examples[0];
  const one = schema.oneOf || schema.anyOf;
  if (one) return sample(one.find(s => s.type !== 'null') || one[0], depth + 1);
  if (schema.enum) return schema.enum[0];
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  if (type === 'array') return [sample(schema.items, depth + 1)];
  if (type === 'object' || schema.properties) {
    const body = {};
    for (const name of schema.required || []) body[name] = sample(schema.properties[name], depth + 1);
    return body;
  }
  return { string: 'text', integer: schema.minimum || 0, number: 0, boolean: false }[type] ?? null;
};

const show = (path, method, call, parent) => {
  const box = make('details', undefined, parent);
  const head = make('summary', undefined, box);
  make('span', method.toUpperCase(), head).className = 'method';
  make('code', path, head);
  prose(' ' + (call.summary || ''), head);
  if (call.description) prose(call.description, make('p', undefined, box));
  const fields = (call.parameters || []).map(param => {
    const label = make('label', `${param.name}${param.required ? ' *' : ''}: `, box);
    const input = make('input', undefined, label);
    prose(' ' + (param.description || ''), label);
    return { param, input };
  });
  let body;
  const content = call.requestBody && call.requestBody.content['application/json'];
  if (content) {
    body = make('textarea', undefined, box);
    body.value = JSON.stringify(sample(content.schema), null, 2);
  }
  const out = document.createElement('pre');
  const send = make('button', 'Send', box);
  box.append(out);
  send.onclick = async () => {
    let url = path;
    const query = new URLSearchParams(), headers = { accept: 'application/json' };
    for (const { param, input } of fields) {
      if (param.in === 'path') url = url.replace(`{${param.name}}`, encodeURIComponent(input.value));
      else if (input.value && param.in === 'query') query.set(param.name, input.value);
      else if (input.value && param.in === 'header') headers[param.name] = input.value;
    }
    if (body) headers['content-type'] = 'application/json';
    const token = document.getElementById('token').value;
    if (token) headers.authorization = `Bearer ${token}`;
    if (path.endsWith('/events')) headers.accept = 'text/event-stream';
    if ([...query].length) url += `?${query}`;
    out.textContent = '…';
    try {
      const answer = await fetch(url, { method: method.toUpperCase(), headers, body: body && body.value });
      out.textContent = `${answer.status} ${answer.statusText}\n\n`;
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = '';
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        text = (text + value).slice(-100000);
        out.textContent = `${answer.status} ${answer.statusText}\n\n${text}`;
      }
      try { text = JSON.stringify(JSON.parse(text), null, 2); } catch { return; }
      out.textContent = `${answer.status} ${answer.statusText}\n\n${text}`;
    } catch (error) { out.textContent = String(error); }
  };
};

const load = () => {
  const token = document.getElementById('token').value;
  return fetch('/openapi.json', token ? { headers: { authorization: `Bearer ${token}` } } : {})
    .then(answer => answer.json())
    .then(api => api.paths ? describe(api) : Promise.reject(api.detail))
    .catch(error => { document.getElementById('about').textContent = String(error); });
};

const describe = api => {
  schemas = api.components.schemas;
  const about = document.getElementById('about');
  about.replaceChildren();
  prose(`${api.info.title} ${api.info.version}: ${api.info.description}`, about);
  const parent = document.getElementById('calls');
  parent.replaceChildren();
  const tags = {};
  for (const [path, methods] of Object.entries(api.paths))
    for (const [method, call] of Object.entries(methods)) {
      const tag = (call.tags || ['other'])[0];
      (tags[tag] ||= []).push([path, method, call]);
    }
  for (const [tag, calls] of Object.entries(tags).sort(([a], [b]) => place(a) - place(b))) {
    make('h2', tag, parent);
    for (const [path, method, call] of calls) show(path, method, call, parent);
  }
};

document.getElementById('token').onchange = load;
load();
