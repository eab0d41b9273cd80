/** Stands in for the layout engine ELK, which is not part of the frame's script. */
export default class Elk {
  constructor() {
    throw new Error("the layout elk is not available")
  }
}
