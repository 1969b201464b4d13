// Exchanges the token in the address for a cookie. A fragment is sent to nobody and is taken out of the history at once.
"use strict";
(async () => {
  const base = document.querySelector("meta[name=base]").content;
  const token = location.hash.slice(1);
  history.replaceState(null, "", location.pathname);
  const answer = token ? await fetch(base + "/open", {method: "POST", body: token, headers: {"content-type": "text/plain"}}) : null;
  if (answer && answer.ok) location.replace(base + "/memories");
  else document.getElementById("said").textContent = answer ? await answer.text() : "Open the whole address that `memdir ui` prints.";
})();
