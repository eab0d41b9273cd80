// What cannot be drawn is said, and takes nothing else with it: tools and servers send whatever they like.
import { Component, type ReactNode } from "react"
import { said } from "../wire/http"

interface BoundaryProps {
  /** Somewhere else it is tried again. */
  place?: string
  words: string
  children: ReactNode
}

interface Drawn {
  place: string | undefined
  problem: string
}

export class Boundary extends Component<BoundaryProps, Drawn> {
  override state: Drawn = { place: this.props.place, problem: "" }

  static getDerivedStateFromProps({ place }: BoundaryProps, drawn: Drawn): Drawn | null {
    return place === drawn.place ? null : { place, problem: "" }
  }

  static getDerivedStateFromError(error: unknown): Partial<Drawn> {
    return { problem: said(error) }
  }

  override render(): ReactNode {
    if (!this.state.problem) return this.props.children
    return (
      <p className="problem" role="alert" title={this.state.problem}>
        {this.props.words}
      </p>
    )
  }
}
