// Keys, selections, live events and drafts. Everything works without it but keys and liveness.
"use strict";
(() => {
  const $ = (what, where = document) => where.querySelector(what);
  const all = (what, where = document) => [...where.querySelectorAll(what)];
  const base = $("meta[name=base]").content;
  const typing = (at) => at && (at.matches("input:not([type=checkbox]):not([type=radio]),textarea,select") || at.isContentEditable);
  const shown = (at) => at.offsetParent !== null;

  // Keys
  const keysOn = () => localStorage.getItem("memdir-keys") !== "off";
  let going = 0;
  function step(by) {
    const items = all("[data-list] [data-item]").filter(shown);
    if (!items.length) return false;
    const row = document.activeElement.closest("tr,li");
    const now = items.findIndex((at) => at === document.activeElement || (row && row.contains(at)));
    const next = items[Math.max(0, Math.min(items.length - 1, now < 0 ? (by > 0 ? 0 : items.length - 1) : now + by))];
    next.focus(); next.scrollIntoView({block: "nearest"});
    return true;
  }
  function hunk(by, answer) {
    const hunks = all("[data-hunk]");
    if (!hunks.length) return false;
    const now = hunks.findIndex((at) => at.contains(document.activeElement));
    if (answer) {
      const at = hunks[Math.max(0, now)];
      const radio = $(`input[value=${answer}]`, at);
      if (!radio) return false;
      radio.checked = true; radio.dispatchEvent(new Event("change", {bubbles: true}));
      by = 1;
      if (now < 0) { at.focus(); }
    }
    const next = hunks[Math.max(0, Math.min(hunks.length - 1, now + by))];
    next.focus(); next.scrollIntoView({block: "nearest"});
    return true;
  }
  addEventListener("keydown", (event) => {
    const at = document.activeElement;
    if ((event.ctrlKey || event.metaKey) && event.key === "Enter") {
      const field = at && at.form && $("[data-submit]", at.form) ? at : $("[data-submit]");
      if (field && field.form) { event.preventDefault(); field.form.requestSubmit(); }
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") { if (typing(at)) at.blur(); else if (history.length > 1 && !$("#many")) history.back(); return; }
    if (typing(at) || !keysOn()) return;
    const key = event.key;
    if (going && Date.now() - going < 1500) {
      going = 0;
      const link = $(`[data-go="${CSS.escape(key)}"]`);
      if (link) { event.preventDefault(); link.click(); return; }
    }
    if (key === "g") { going = Date.now(); return; }
    const done = (() => {
      if (key === "y") return hunk(0, "yes");
      if (key === "n" && $("[data-hunk]")) return hunk(0, "no");
      const named = all(`[data-key="${CSS.escape(key)}"]`).filter((one) => shown(one) || one.type === "radio");
      if (named.length) {
        const one = named[0];
        if (typing(one)) { one.focus(); one.select(); }
        else if (one.type === "radio") { const row = named.find((r) => r.closest("tr").contains(at)) || one; row.checked = true; row.focus(); row.dispatchEvent(new Event("change", {bubbles: true})); }
        else one.click();
        return true;
      }
      if (key === "j") return step(1) || hunk(1);
      if (key === "k") return step(-1) || hunk(-1);
      if (key === "x") {
        const row = at.closest("tr,li");
        const box = row && $("input[type=checkbox]", row) || $(".queue li.on input");
        if (box) { box.click(); return true; }
      }
      return false;
    })();
    if (done) event.preventDefault();
  });

  // Selections, dream hunks, merges
  function count() {
    const bar = $("#selbar");
    if (!bar) return;
    const chosen = all("input[name=key]:checked,input[name=item][type=checkbox]:checked").length;
    bar.hidden = !chosen;
    $("#selcount").textContent = chosen;
  }
  function hunks() {
    let accepted = 0;
    for (const at of all("[data-hunk]")) {
      const no = $("input[value=no]", at);
      if (!no) return;
      at.classList.toggle("off", no.checked);
      accepted += no.checked ? 0 : 1;
    }
    const out = $("[data-accepted]");
    if (out) out.textContent = accepted;
  }
  addEventListener("change", (event) => {
    const at = event.target;
    if (at.matches("[data-all]")) for (const box of all("input[type=checkbox]", at.closest(".grp").nextElementSibling)) box.checked = at.checked;
    if (at.id === "single-keys") localStorage.setItem("memdir-keys", at.checked ? "on" : "off");
    count(); hunks();
  });
  addEventListener("click", (event) => {
    const every = event.target.closest("[data-every]");
    if (every) { for (const radio of all(`[data-hunk] input[value=${every.dataset.every}]`)) radio.checked = true; hunks(); }
    const open = event.target.closest("[data-open]");
    if (open) { event.preventDefault(); const box = document.getElementById(open.dataset.open); box.open = true; $("textarea", box).focus(); }
  });

  // Drafts: what is being typed is neither replaced nor left without a question
  let dirty = false;
  addEventListener("input", (event) => { if (event.target.closest("[data-guard]")) dirty = true; });
  addEventListener("submit", () => { dirty = false; });
  addEventListener("beforeunload", (event) => { if (dirty) event.preventDefault(); });

  // Live: one tab listens for all, since a browser allows a host few connections
  let stale = false;
  const chosen = () => dirty || $("#many input:checked") || $("#queue input:checked") || $("[data-hunk] input[value=no]:checked");
  addEventListener("htmx:beforeSwap", ({detail}) => {  // what was chosen while the answer was under way stays
    if (detail.requestConfig.headers["memdir-live"] && chosen()) detail.shouldSwap = false;
  });
  function renew() {
    const live = $("[data-live]");
    if (dirty || $("form[data-guard] textarea:focus") || $("nav.tabs a[aria-current][href*=tab]")) {
      const notice = $("#changed");
      if (notice && $("[data-guard]") && !$("[data-hunk]")) notice.hidden = false;
      return;
    }
    if (!live || document.hidden) { stale = true; return; }
    if (chosen()) return;
    const focus = document.activeElement, id = focus && live.contains(focus) && (focus.id || focus.dataset.id);
    htmx.ajax("GET", location.pathname + location.search, {target: "#live", select: "#live", swap: "outerHTML", headers: {"memdir-live": "1"}}).then(() => {
      const again = id && (document.getElementById(id) || $(`[data-id="${CSS.escape(id)}"]`));
      if (again) again.focus();
      count(); hunks();
    });
  }
  const channel = new BroadcastChannel("memdir" + base);
  let later = 0, seen = Number($("meta[name=seen]").content), leads = false;
  function heard(number) {  // of events so far: what happened before this page was made is in it already
    if (number <= seen) return;
    seen = number;
    clearTimeout(later);
    later = setTimeout(renew, 100);
  }
  channel.onmessage = ({data}) => { if (data !== "ask") heard(data); else if (leads) channel.postMessage(seen); };
  channel.postMessage("ask");
  function listen() {
    const source = new EventSource(base + "/events");
    leads = true;
    for (const name of ["hello", "change"]) source.addEventListener(name, ({data}) => { channel.postMessage(Number(data)); heard(Number(data)); });
    addEventListener("pagehide", () => source.close());
  }
  if (navigator.locks) navigator.locks.request("memdir" + base, () => { listen(); return new Promise(() => {}); });
  else listen();
  addEventListener("visibilitychange", () => { if (!document.hidden && stale) { stale = false; renew(); } });

  addEventListener("htmx:afterSwap", () => { count(); hunks(); });
  const keys = $("#single-keys");
  if (keys) keys.checked = keysOn();
  const notice = $("#notice");
  if (notice) history.replaceState(null, "", location.pathname + location.search.replace(/[?&]done=[^&]*/, "").replace(/^&/, "?") + location.hash);
  count(); hunks();
})();
