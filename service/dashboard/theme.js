// SPDX-License-Identifier: MIT
// In the page itself, before its first frame: the colours that were chosen here, so that no others are seen first.
try {
  const kept = localStorage.getItem('theme');
  if (kept === 'light' || kept === 'dark') document.documentElement.dataset.theme = kept;
} catch { /* not kept */ }
