/** Responses and events overtake each other: the newer of both is shown. Pure functions. */

interface Revised {
  revision: number
}

/**
 * The run as it was loaded, with what the event says unless that is older. Of the same revision, the event has the nodes
 * as they were last; a later change of them is another event.
 */
export function newerOf<Whole extends Revised, Event extends Revised>(whole: Whole, event: Event | undefined): Whole {
  return event && event.revision >= whole.revision ? { ...whole, ...event } : whole
}
