/** In the page: where a node can be clicked, once there is one, painted or as an element. */
export function painted(): { x: number; y: number; at: number } | false {
  const canvas = document.querySelector<HTMLCanvasElement>("[data-testid=far]")
  const pixels = canvas?.width ? canvas.getContext("2d")?.getImageData(0, 0, canvas.width, canvas.height) : undefined
  if (canvas && pixels)
    for (let y = Math.floor(canvas.height / 3); y < canvas.height; y++)
      for (let x = 0; x < canvas.width; x++)
        if (pixels.data[(y * canvas.width + x) * 4 + 3] === 255) {
          const box = canvas.getBoundingClientRect()
          return { x: box.x + x, y: box.y + y, at: performance.now() }
        }
  for (const node of document.querySelectorAll<HTMLElement>(".react-flow__node")) {
    const { x, y, width, height } = node.getBoundingClientRect()
    const place = { x: x + width / 2, y: y + height / 2 }
    if (node.contains(document.elementFromPoint(place.x, place.y))) return { ...place, at: performance.now() }
  }
  return false
}
