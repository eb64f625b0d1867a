// The parts of a store, in the order in which they are shown. Pure.

const suffers = ({ problem, breaker }) => Boolean(problem) || breaker !== 'closed';

/** Those that suffer first if not all can be shown, so that they are. Else as they came: nothing changes places without need. */
export const inOrder = (shards, room) => (shards.length > room ? [...shards.filter(suffers), ...shards.filter((shard) => !suffers(shard))] : shards);

/** The rows of a table with `room`: all that suffer, however many, and as many of the others as there is room for. */
export const shown = (shards, room) => inOrder(shards, room).slice(0, Math.max(room, shards.filter(suffers).length));
