// SPDX-License-Identifier: MIT
// Filters whose names are like one another are different ones to the dashboard. Needs nothing but Node.
const assert = require('assert');
const fs = require('fs');
const path = require('path');

const text = fs.readFileSync(path.join(__dirname, '../../service/dashboard/live.js'));
import('data:text/javascript;base64,' + text.toString('base64')).then(({ keyOf }) => {
  const names = ['links', 'base64:/w==', { base64: '/w==' }, 'text:base64:/w==', 'text:links', 'text:text:links', 'base64:', 'text:', ''];
  assert.strictEqual(new Set(names.map(keyOf)).size, names.length);
  assert.strictEqual(keyOf('links'), 'links');
}).catch((error) => { console.error(error); process.exit(1); });
