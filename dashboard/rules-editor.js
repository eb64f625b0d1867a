// Writing a rule: checked as one types, shown as a change before it is saved, and never over what somebody else has saved.

import { html, useEffect, useMemo, useRef, useState } from "./vendor-preact.js";
import { editHref, LIST, ruleHref } from "./rules-address.js";
import { Diff, Foreign, Heading, Message, Version, Words } from "./rules-parts.js";
import { go } from "./rules-route.js";
import { doneInWords, loadRule, sameText, saveRule, validate } from "./rules-source.js";
import { idsIn } from "./rules-text.js";
import { shortVersion } from "./rules-words.js";

const WAIT_MS = 350;
const MOST_NUMBERS = 5000;

const TEMPLATE = `rule_id: my_rule
description: what it is for
identifier_type: user_id      # whom it counts: user_id, ip_address, tenant_id, global…
limit: 100
window: 1m
match: { path_pattern: /api/* }
shadow: true                  # only watches; take this out to have it refuse
`;

/** What was being written when one went elsewhere, by rule ("" for a new one). */
const drafts = new Map();

/** The editor of rule `id`, or of a new one if that is null. */
export function Editor({ api, id, known, may, message, say, reload, route }) {
  const [base, setBase] = useState(null);
  const [text, setText] = useState("");
  const [saving, setSaving] = useState(false);
  const [refused, setRefused] = useState(null);
  const [conflict, setConflict] = useState(null);
  const fresh = id === null;
  const ids = useMemo(() => idsIn(text), [text]);
  const name = id ?? (ids.length === 1 ? ids[0] : null);
  const check = useCheck(api, name, base && !base.problem ? text : null, fresh);
  const area = useRef(null);
  const key = id ?? "";

  useEffect(() => {
    let here = true;
    start(api, id).then((loaded) => {
      if (!here) return;
      const draft = drafts.get(key);
      setBase(draft ? draft.base : loaded);
      setText(draft ? draft.text : (loaded.text ?? ""));
      if (draft) say("info", "This is what you were writing before; it is not saved yet.");
    });
    return () => {
      here = false;
    };
  }, [api, id]);

  const dirty = base && !base.problem && !sameText(text, base.text);
  useEffect(() => {
    if (!base || base.problem) return;
    if (dirty) drafts.set(key, { base, text });
    else drafts.delete(key);
  }, [base, text, dirty]);
  useLeaving(dirty);
  const latest = useRef(false);
  latest.current = dirty;

  // Whoever is writing hears of it at once if the rule becomes another meanwhile.
  useEffect(() => {
    if (fresh || !base || base.problem) return undefined;
    let here = true;
    loadRule(api, id).then((loaded) => {
      if (!here || loaded.problem || loaded.version === base.version) return;
      if (!latest.current && loaded.rule) {
        setBase(loaded);
        setText(loaded.text);
      } else if (!loaded.rule || !sameText(loaded.text, base.text)) {
        say(
          "warn",
          "Somebody has changed this rule since you began. Go on: when you save, you will see both changes and can decide.",
        );
      }
    });
    return () => {
      here = false;
    };
  }, [known.version]);

  const write = (value) => {
    setText(value);
    setRefused(null);
    if (message) say(null);
  };

  const errors = refused ?? check.errors;
  const ready =
    may.ok && !saving && base && !base.problem && (dirty || fresh) && check.state !== "invalid" && !conflict;

  const save = async () => {
    if (!ready) return;
    if (!name || ids.length > 1) {
      say(
        "bad",
        ids.length > 1
          ? "Write one rule at a time: this text has several."
          : "Give the rule a name: a line such as rule_id: my_rule.",
      );
      return;
    }
    setSaving(true);
    const { outcome, theirs } = await saved(api, name, text, base);
    setSaving(false);
    if (outcome.done) {
      drafts.delete(key);
      reload();
      say("good", doneInWords(outcome.done, outcome.done.previous_version === null ? "created" : "changed"), {
        hash: ruleHref(name),
      });
      go(ruleHref(name));
    } else if (outcome.conflict) {
      if (theirs.problem) say("bad", theirs.problem);
      else setConflict({ theirs, name });
    } else if (outcome.errors) {
      setRefused(outcome.errors);
      say("bad", "It was not saved: together with the other rules it is not right. See what is wrong below.");
    } else say("bad", outcome.problem);
  };

  const resolve = (nextBase, nextText) => {
    setConflict(null);
    setBase(nextBase);
    setText(nextText);
    area.current?.focus();
  };

  const jump = ({ line, column }) => {
    const lines = text.split("\n");
    const before = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
    const at = before + [...(lines[line - 1] ?? "")].slice(0, column - 1).join("").length;
    area.current?.focus();
    area.current?.setSelectionRange(at, at);
  };

  const title = fresh ? "New rule" : html`Edit <${Foreign} text=${id} most=${256} />`;
  return html`<section class="rules-view">
    <p class="rules-back">
      <a href=${fresh ? LIST : ruleHref(id)}>← ${fresh ? "All rules" : "Back to the rule"}</a>
    </p>
    <${Heading} at=${route.hash}>${title}<//>
    ${!base && html`<p class="rules-muted">Loading…</p>`}
    ${base?.problem && html`<p class="rules-message rules-message-bad" role="alert">${base.problem}</p>`}
    ${
      base &&
      !base.problem &&
      html`<div class="rules-columns rules-columns-edit">
        <div>
          ${!base.exact && html`<p class="rules-note">The text of this rule could not be told from the rest of its document, so this is the rule as the node has understood it. Comments within it will be gone when it is saved.</p>`}
          <label class="rules-label" for="rules-text"
            >The rule, as YAML or
            JSON${base.version === null ? "" : html`, read at version <${Version} version=${base.version} />`}</label
          >
          <${Area}
            area=${area}
            text=${text}
            errors=${errors}
            write=${write}
            save=${save}
            readonly=${!may.ok}
          />
          <div class="rules-save">
            <${Message} message=${message} />
            <div class="rules-actions">
              <button
                type="button"
                class="rules-button rules-button-main"
                data-test="rule-save"
                disabled=${!ready}
                aria-describedby="rules-why-not"
                onClick=${save}
              >
                ${saving ? "Saving…" : fresh ? "Create the rule" : "Save the change"}
              </button>
              ${dirty && !fresh && html`<button type="button" class="rules-button" data-test="rule-revert" onClick=${() => write(base.text)}>Undo all changes</button>`}
              <a class="rules-button" href=${fresh ? LIST : ruleHref(id)}
                >${dirty ? "Leave it for now" : "Back"}</a
              >
              <span class="rules-muted" id="rules-why-not"
                ><${Words} text=${whyNot({ may, check, dirty: dirty || fresh, conflict })}
              /></span>
            </div>
          </div>
        </div>
        <div class="rules-side">
          <${Check} check=${check} errors=${errors} refused=${refused} jump=${jump} />
          ${
            conflict
              ? html`<${Conflict}
                  conflict=${conflict}
                  base=${base}
                  text=${text}
                  fresh=${fresh}
                  resolve=${resolve}
                />`
              : html`<${Diff}
                  test="rule-diff"
                  before=${fresh ? "" : base.text}
                  after=${text}
                  from=${fresh ? "nothing" : `version ${shortVersion(base.version)}`}
                  to="what will be saved"
                />`
          }
        </div>
      </div>`
    }
  </section>`;
}

// A version is that of the whole document. If only other rules of it have changed, that is no reason to ask.
async function saved(api, name, text, base) {
  const outcome = await saveRule(api, name, text, base.version);
  if (!outcome.conflict) return { outcome };
  const theirs = await loadRule(api, name);
  const untouched =
    base.version !== null && theirs.rule && theirs.exact && base.exact && sameText(theirs.text, base.text);
  if (!untouched) return { outcome, theirs };
  const second = await saveRule(api, name, text, theirs.version);
  return { outcome: second, theirs: second.conflict ? await loadRule(api, name) : theirs };
}

async function start(api, id) {
  if (id === null) return { text: TEMPLATE, version: null, exact: true };
  const loaded = await loadRule(api, id);
  if (!loaded.problem && !loaded.rule)
    return { problem: "There is no such rule any more; its history may have it." };
  return loaded;
}

function whyNot({ may, check, dirty, conflict }) {
  if (!may.ok) return may.why;
  if (conflict) return "Decide first what becomes of the other change.";
  if (check.state === "invalid") return `Something is wrong in line ${check.errors[0].line}.`;
  return dirty ? "" : "Nothing is changed yet.";
}

// Asks whether the text is right when nobody has typed for a moment.
function useCheck(api, name, text, fresh) {
  const [check, setCheck] = useState({ state: "checking", errors: [], note: "" });
  useEffect(() => {
    if (text === null) return undefined;
    let here = true;
    setCheck((before) => ({ ...before, state: "checking" }));
    const timer = setTimeout(async () => {
      const { errors, note, problem } = await validate(api, name, text, fresh);
      if (!here) return;
      if (problem) setCheck({ state: "unknown", errors: [], note: problem });
      else setCheck({ state: errors.length ? "invalid" : "valid", errors, note });
    }, WAIT_MS);
    return () => {
      here = false;
      clearTimeout(timer);
    };
  }, [api, name, text, fresh]);
  return check;
}

function useLeaving(dirty) {
  useEffect(() => {
    if (!dirty) return undefined;
    const leaving = (event) => event.preventDefault();
    addEventListener("beforeunload", leaving);
    return () => removeEventListener("beforeunload", leaving);
  }, [dirty]);
}

function Area({ area, text, errors, write, save, readonly }) {
  const gutter = useRef(null);
  const lines = Math.min(text.split("\n").length, MOST_NUMBERS);
  const wrong = new Set(errors.map(({ line }) => line));
  const pressed = (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "s") {
      event.preventDefault();
      save();
    }
  };
  return html`<div class="rules-editor">
    <div class="rules-gutter" aria-hidden="true" ref=${gutter}>
      ${Array.from({ length: lines }, (_, i) => html`<span key=${i} class=${wrong.has(i + 1) ? "rules-gutter-wrong" : undefined}>${i + 1}</span>`)}
    </div>
    <textarea
      id="rules-text"
      class="rules-area"
      data-test="rule-text"
      ref=${area}
      value=${text}
      rows=${Math.max(14, Math.min(36, lines + 2))}
      wrap="off"
      spellcheck=${false}
      autocapitalize="off"
      autocomplete="off"
      readonly=${readonly}
      aria-describedby="rules-check"
      aria-invalid=${errors.length > 0}
      onInput=${(event) => write(event.target.value)}
      onKeyDown=${pressed}
      onScroll=${(event) => {
        if (gutter.current) gutter.current.scrollTop = event.target.scrollTop;
      }}
    ></textarea>
  </div>`;
}

const STATES = { checking: "Checking…", valid: "✓ Valid", unknown: "It could not be checked" };

function Check({ check, errors, refused, jump }) {
  const wrong = errors.length > 0 && (refused || check.state !== "valid");
  const kind = wrong ? "invalid" : check.state;
  return html`<div
    class=${`rules-check rules-check-${kind}`}
    id="rules-check"
    data-test="rule-validate"
    data-state=${refused ? "invalid" : check.state}
    role="status"
    aria-live="polite"
  >
    ${
      wrong
        ? html`<p class="rules-check-title">
              ${errors.length === 1 ? "One thing is wrong" : `${errors.length} things are wrong`}
            </p>
            <ol class="rules-errors">
              ${errors.slice(0, 50).map(
                (error, i) =>
                  html`<li key=${i} data-test="rule-error">
                    <button type="button" class="rules-link" onClick=${() => jump(error)}>
                      line ${error.line}, column ${error.column}
                    </button>
                    <span> <${Words} text=${error.message} /></span>
                  </li>`,
              )}
            </ol>
            ${errors.length > 50 && html`<p class="rules-muted">and ${errors.length - 50} more</p>`}`
        : html`<p class="rules-check-title">${STATES[check.state] ?? STATES.checking}</p>
            ${check.note && html`<p class="rules-muted"><${Foreign} text=${check.note} /></p>`}`
    }
  </div>`;
}

// Somebody else was faster. Both sides are shown, and nothing is lost whichever way it goes.
function Conflict({ conflict, base, text, fresh, resolve }) {
  const { theirs, name } = conflict;
  const panel = useRef(null);
  useEffect(() => {
    panel.current?.focus({ preventScroll: true });
    panel.current?.scrollIntoView({ block: "nearest" });
  }, []);
  if (fresh && theirs.rule) {
    return html`<div class="rules-conflict" data-test="rule-conflict" role="alert" tabindex="-1" ref=${panel}>
      <p>
        <strong>There is a rule <${Foreign} text=${name} most=${128} /> already.</strong> Give yours another
        name, or <a href=${editHref(name)}>edit that one</a>.
      </p>
      <div class="rules-actions">
        <button type="button" class="rules-button" onClick=${() => resolve(base, text)}>
          Give it another name
        </button>
      </div>
    </div>`;
  }
  if (!theirs.rule) {
    return html`<div class="rules-conflict" data-test="rule-conflict" role="alert" tabindex="-1" ref=${panel}>
      <p><strong>Somebody has deleted this rule meanwhile.</strong></p>
      <div class="rules-actions">
        <button
          type="button"
          class="rules-button"
          data-test="conflict-mine"
          onClick=${() => resolve({ ...base, text: "", version: null }, text)}
        >
          Create it again with my text
        </button>
        <a class="rules-button" href=${LIST}>Leave it deleted</a>
      </div>
    </div>`;
  }
  const last = theirs.history[0];
  const who = last && String(last.version) === theirs.version ? last.by : null;
  const untouched = sameText(theirs.text, base.text);
  return html`<div class="rules-conflict" data-test="rule-conflict" role="alert" tabindex="-1" ref=${panel}>
    ${
      untouched
        ? html`<p>
            <strong>Its document has been changed meanwhile, but not this rule.</strong> Nothing of yours is
            in the way.
          </p>`
        : html`<p>
              <strong
                >${who ? html`<${Foreign} text=${who} most=${80} /> has` : "Somebody has"} changed this rule
                since you began.</strong
              >${" "}
              It is at version <${Version} version=${theirs.version} /> by now; nothing of yours was saved.
            </p>
            <${Diff} before=${base.text} after=${theirs.text} from="when you began" to="their change" />
            <${Diff} before=${base.text} after=${text} from="when you began" to="your change" />`
    }
    <div class="rules-actions">
      ${
        untouched
          ? html`<button
              type="button"
              class="rules-button rules-button-main"
              data-test="conflict-mine"
              onClick=${() => resolve(theirs, text)}
            >
              Go on with version ${shortVersion(theirs.version)}
            </button>`
          : html`<button
                type="button"
                class="rules-button"
                data-test="conflict-mine"
                onClick=${() => resolve(theirs, text)}
              >
                Keep my text, compare it with theirs
              </button>
              <button
                type="button"
                class="rules-button"
                data-test="conflict-theirs"
                onClick=${() => resolve(theirs, theirs.text)}
              >
                Take theirs, drop mine
              </button>`
      }
    </div>
    ${!untouched && html`<p class="rules-muted">Neither saves anything yet: you see once more what would change.</p>`}
  </div>`;
}
