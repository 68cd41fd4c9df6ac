/** Follows the log of a run: one stream of events, found again at the same place wherever it breaks. */
import { client, unwrap } from "../../../../api/client";
import { markConnected } from "../../../../api/connection";
import { isProblem } from "../../../../api/problems";
import { RUN } from "../../../../api/runs";
import { type Entry, Lines } from "./lines";

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 5000;
/** Answers after which it is no use to ask again. */
const FINAL = [403, 404, 409, 422];

export type Phase = "connecting" | "following" | "reconnecting" | "resting" | "ended" | "refused";

export class Following {
  readonly lines = new Lines();
  phase: Phase = "connecting";
  /** Why it was refused. */
  error: unknown = null;
  private cursor = 0;
  private source: EventSource | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private frame: number | undefined;
  private pause = FIRST_PAUSE_MS;
  /** Which connection it is: an answer that is late belongs to none. */
  private turn = 0;

  constructor(
    private readonly id: string,
    /** The try whose log it is; left out, all of them one after the other. */
    private readonly attempt: number | undefined,
    /** Called at most once per frame, however much comes. */
    private readonly onChange: () => void,
  ) {}

  start(): void {
    document.addEventListener("visibilitychange", this.look);
    this.look();
  }

  stop(): void {
    document.removeEventListener("visibilitychange", this.look);
    this.disconnect();
    if (this.frame !== undefined) cancelAnimationFrame(this.frame);
    this.frame = undefined;
  }

  retry(): void {
    this.error = null;
    this.connect("connecting");
  }

  /** A browser has six connections to a server: a tab that nobody looks at takes none. */
  private readonly look = (): void => {
    if (this.phase === "ended" || this.phase === "refused") return;
    if (!document.hidden) this.connect("connecting");
    else {
      this.disconnect();
      this.enter("resting");
    }
  };

  private connect(phase: Phase): void {
    this.disconnect();
    this.enter(phase);
    const one = this.attempt === undefined ? "" : `&attempt=${this.attempt}`;
    const source = new EventSource(`/api/v1/runs/${this.id}/logs?follow=true&cursor=${this.cursor}${one}`);
    source.addEventListener("open", () => {
      markConnected();
      this.pause = FIRST_PAUSE_MS;
      this.enter("following");
    });
    source.addEventListener("log", (event) => {
      this.lines.add(JSON.parse(event.data) as Entry);
      this.cursor = Number(event.lastEventId);
      this.tell();
    });
    source.addEventListener("end", () => {
      this.disconnect();
      this.enter("ended");
    });
    // Both what the server says of a mistake, and that it says nothing. Browsers tell no status: so it is asked for.
    source.addEventListener("error", () => void this.recover());
    this.source = source;
  }

  private async recover(): Promise<void> {
    const turn = this.disconnect();
    this.enter("reconnecting");
    let refused: unknown = null;
    try {
      const query = { cursor: this.cursor, attempt: this.attempt };
      await unwrap(client.GET(`${RUN}/logs`, { params: { path: { run_id: this.id }, query } }));
    } catch (error) {
      if (isProblem(error) && FINAL.includes(error.problem.status)) refused = error;
    }
    // Meanwhile somebody may have gone, or come back to the tab.
    if (turn !== this.turn) return;
    if (refused) {
      this.error = refused;
      this.enter("refused");
      return;
    }
    this.timer = setTimeout(() => this.connect("reconnecting"), this.pause);
    this.pause = Math.min(2 * this.pause, LONGEST_PAUSE_MS);
  }

  private disconnect(): number {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
    this.turn += 1;
    return this.turn;
  }

  private enter(phase: Phase): void {
    this.phase = phase;
    this.tell();
  }

  private tell(): void {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      this.onChange();
    });
  }
}
