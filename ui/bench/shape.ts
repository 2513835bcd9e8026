/** The shape of a pipeline that maps over a data set: a start, rows of ten nodes, an end. */
export function rows(count: number): { names: string[]; edges: { from: string; to: string }[] } {
  const names = Array.from({ length: count }, (_, index) => `step-${index}`)
  const edges = [
    ...names.slice(1, 11).map((to) => ({ from: "step-0", to })),
    ...names
      .slice(11, -1)
      .flatMap((to, index) => [
        { from: `step-${index + 1}`, to },
        ...(index % 7 === 0 && index > 0 ? [{ from: `step-${index}`, to }] : []),
      ]),
    ...names.slice(-11, -1).map((from) => ({ from, to: `step-${count - 1}` })),
  ]
  return { names, edges }
}
