// Where on the Rules page one is, as the address says it. Ids have no `~`, so these names are never a rule's.

import { useEffect, useState } from "./vendor-preact.js";
import { parseRoute } from "./rules-address.js";

/** The route of now, and again whenever it changes. */
export function useRoute() {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const changed = () => setHash(location.hash);
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return parseRoute(hash);
}

/** Goes to an address of the page. */
export function go(href) {
  location.hash = href;
}
