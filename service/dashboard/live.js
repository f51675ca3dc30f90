// SPDX-License-Identifier: MIT
// What the page asks of the service: who am I, the stream, single figures, changes, checks and adds. Nothing else leaves the page.

// A filter's name is text, or {base64} where it is no UTF-8. No two names have one key: text that looks like a key is marked.
export const keyOf = (name) => typeof name !== 'string' ? 'base64:' + name.base64 : /^(base64|text):/.test(name) ? 'text:' + name : name;

function pathOf(name) {
  if (typeof name === 'string') return encodeURIComponent(name);
  return Array.from(atob(name.base64), (c) => '%' + c.charCodeAt(0).toString(16).padStart(2, '0')).join('');
}

async function failure(answer) {
  let detail = answer.status + ' ' + answer.statusText;
  try { detail = (await answer.json()).detail || detail; } catch { /* no problem document */ }
  const error = new Error(detail);
  error.status = answer.status;
  return error;
}

async function get(path) {
  const answer = await fetch(path, { headers: { Accept: 'application/json' } });
  if (!answer.ok) throw await failure(answer);
  return answer.json();
}

let session = null;
export async function whoAmI() {
  session = await get('/v1/session');
  return session;
}

export const samples = (name, count) => get(`/v1/filters/${pathOf(name)}/samples${count ? `?count=${count}` : ''}`);
export const shards = (name) => get(`/v1/filters/${pathOf(name)}/shards`);
export const history = (name) => get(`/v1/filters/${pathOf(name)}/history?count=12`);

// A token belongs to one process: another coordinator behind the same name, or a restarted one, has another.
export async function change(name, what, body) {
  for (let attempt = 0; ; attempt++) {
    if (session === null || attempt > 0) await whoAmI();
    const answer = await fetch(`/v1/filters/${pathOf(name)}/${what}`, {
      method: 'POST', body: JSON.stringify(body || {}),
      headers: { 'Content-Type': 'application/json', 'X-CSRF-Token': session.csrf_token },
    });
    if (answer.ok) return answer.json();
    const error = await failure(answer);
    if (error.status !== 403 || attempt >= 2 || !/csrf/i.test(error.message)) throw error;
  }
}

const SILENCE_MS = 15000, RETRY_MIN_MS = 1000, RETRY_MAX_MS = 15000;

// on: {filter, gone, coordinators, nodes, traffic, tick, state(text, level)}. Connects again for ever.
export function listen(on) {
  let source, heard = 0, retry = RETRY_MIN_MS, timer = 0;
  const hear = (fn) => (event) => {
    heard = Date.now();
    retry = RETRY_MIN_MS;
    on.state('open');
    fn(JSON.parse(event.data));
  };
  function lose() {
    source.close();
    on.state('lost', retry);
    clearTimeout(timer);
    timer = setTimeout(connect, retry);
    retry = Math.min(retry * 2, RETRY_MAX_MS);
  }
  function connect() {
    heard = Date.now();
    source = new EventSource('/v1/events');
    source.addEventListener('filter', hear(on.filter));
    source.addEventListener('gone', hear(on.gone));
    source.addEventListener('coordinators', hear(on.coordinators));
    source.addEventListener('nodes', hear(on.nodes));
    source.addEventListener('traffic', hear(on.traffic));
    source.addEventListener('tick', hear(on.tick));
    source.addEventListener('end', lose);
    source.onopen = () => { on.open(); };
    source.onerror = lose;
  }
  setInterval(() => { if (source.readyState !== EventSource.CLOSED && Date.now() - heard > SILENCE_MS) lose(); }, 1000);
  addEventListener('pagehide', () => source.close());
  addEventListener('pageshow', (event) => { if (event.persisted) connect(); });
  connect();
}
