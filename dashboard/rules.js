// The Rules page: which rules are in force and what they do, changing them, and why a request is decided as it is.

import { html, useCallback, useEffect, useMemo, useRef, useState } from "./vendor-preact.js";
import { EXPLAIN, LIST, NEW } from "./rules-address.js";
import { Detail } from "./rules-detail.js";
import { Editor } from "./rules-editor.js";
import { Explain } from "./rules-explain.js";
import { List } from "./rules-list.js";
import { Words } from "./rules-parts.js";
import { go, useRoute } from "./rules-route.js";
import { loadDocuments, loadRules } from "./rules-source.js";

const NO_DOCUMENTS = { changeable: true, why: "", documents: [], of: new Map(), tiers: [], plans: [] };

/** The page. `state` and `byRule` are what the node says of itself now, `role` what the caller may do (null: unknown). */
export function Rules({ api, state, byRule, role }) {
  const route = useRoute();
  const [known, reload] = useRules(api, state?.rules?.version);
  const [message, say] = useMessage(route.hash);
  const usage = useMemo(() => new Map((byRule ?? []).map((entry) => [entry.rule, entry])), [byRule]);
  const documents = known.documents ?? NO_DOCUMENTS;
  const may = mayChange(role, documents);
  const shared = {
    api,
    known,
    documents,
    usage,
    live: state !== null && state !== undefined,
    may,
    message,
    say,
    reload,
    route,
  };
  return html`<div class="rules-page">
    <nav class="rules-tabs" aria-label="Rules">
      <a href=${LIST} aria-current=${route.view === "explain" ? undefined : "page"}>Rules</a>
      <a href=${EXPLAIN} aria-current=${route.view === "explain" ? "page" : undefined}>Explain a request</a>
      <span class="rules-tabs-gap"></span>
      <button
        type="button"
        class="rules-button rules-button-main"
        data-test="rule-new"
        disabled=${!may.ok || route.view === "new"}
        aria-describedby=${may.ok ? undefined : "rules-may-not"}
        onClick=${() => go(NEW)}
      >
        New rule
      </button>
    </nav>
    ${!may.ok && html`<p class="rules-may-not" id="rules-may-not"><${Words} text=${may.why} /></p>`}
    ${viewOf(route, shared)}
  </div>`;
}

function viewOf(route, shared) {
  switch (route.view) {
    case "rule":
      return html`<${Detail} key=${route.id} id=${route.id} ...${shared} />`;
    case "edit":
      return html`<${Editor} key=${`edit ${route.id}`} id=${route.id} ...${shared} />`;
    case "new":
      return html`<${Editor} key="new" id=${null} ...${shared} />`;
    case "explain":
      return html`<${Explain} key="explain" ...${shared} />`;
    default:
      return html`<${List} key="list" ...${shared} />`;
  }
}

function mayChange(role, documents) {
  if (!documents.changeable) return { ok: false, why: `Rules cannot be changed here: ${documents.why}` };
  if (role === "write") return { ok: true, why: "" };
  if (role === "read")
    return {
      ok: false,
      why: "You may look at rules, but not change them: that needs a token with the role write.",
    };
  return { ok: false, why: "Rules can be changed as soon as the node says that you may." };
}

// The rules in force, again whenever their version is another.
function useRules(api, version) {
  const [known, setKnown] = useState({ loading: true, rules: null, documents: null, problem: null });
  const turn = useRef(0);
  const reload = useCallback(async () => {
    turn.current += 1;
    const mine = turn.current;
    const loaded = await loadRules(api);
    if (mine !== turn.current) return;
    setKnown((before) => ({ ...before, problem: null, ...loaded, loading: false }));
    if (!loaded.rules) return;
    const documents = await loadDocuments(api, loaded.rules);
    if (mine === turn.current) setKnown((before) => ({ ...before, documents }));
  }, [api]);
  useEffect(() => {
    reload();
  }, [reload, version]);
  useEffect(
    () => () => {
      turn.current = -1;
    },
    [],
  );
  return [known, reload];
}

// What is said stays for the address it was said for.
function useMessage(hash) {
  const [message, setMessage] = useState(null);
  const say = useCallback((kind, text, more = {}) => {
    setMessage(kind === null ? null : { kind, text, hash: location.hash, ...more });
  }, []);
  return [message && message.hash === hash ? message : null, say];
}
