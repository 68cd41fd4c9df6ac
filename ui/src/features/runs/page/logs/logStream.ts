/** Streams the log of a run with server-sent events. Resumes at its cursor after a disconnect. */
import { client, unwrap } from "../../../../api/client";
import { markConnected } from "../../../../api/connection";
import { isProblem } from "../../../../api/problems";
import { RUN } from "../../../../api/runs";
import { type Entry, Lines } from "./lines";

const FIRST_PAUSE_MS = 500;
const MAX_PAUSE_MS = 5000;
/** Status codes that a retry cannot fix. */
const FINAL_STATUSES = [403, 404, 409, 422];

export type Phase = "connecting" | "following" | "reconnecting" | "paused" | "ended" | "rejected";

export class LogStream {
  readonly lines = new Lines();
  phase: Phase = "connecting";
  /** The error in the "rejected" phase. */
  error: unknown = null;
  private cursor = 0;
  private source: EventSource | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private frame: number | undefined;
  private pause = FIRST_PAUSE_MS;
  /** The number of the current connection, used to ignore late responses to earlier connections. */
  private connection = 0;

  constructor(
    private readonly id: string,
    /** The attempt to stream. If undefined, all attempts are streamed in sequence. */
    private readonly attempt: number | undefined,
    /** Called at most once per animation frame. */
    private readonly onChange: () => void,
  ) {}

  start(): void {
    document.addEventListener("visibilitychange", this.updateVisibility);
    this.updateVisibility();
  }

  stop(): void {
    document.removeEventListener("visibilitychange", this.updateVisibility);
    this.disconnect();
    if (this.frame !== undefined) cancelAnimationFrame(this.frame);
    this.frame = undefined;
  }

  retry(): void {
    this.error = null;
    this.connect("connecting");
  }

  /** Disconnects hidden tabs: browsers allow only six connections per server. */
  private readonly updateVisibility = (): void => {
    if (this.phase === "ended" || this.phase === "rejected") return;
    if (!document.hidden) this.connect("connecting");
    else {
      this.disconnect();
      this.setPhase("paused");
    }
  };

  private connect(phase: Phase): void {
    this.disconnect();
    this.setPhase(phase);
    const query = this.attempt === undefined ? "" : `&attempt=${this.attempt}`;
    const source = new EventSource(`/api/v1/runs/${this.id}/logs?follow=true&cursor=${this.cursor}${query}`);
    source.addEventListener("open", () => {
      markConnected();
      this.pause = FIRST_PAUSE_MS;
      this.setPhase("following");
    });
    source.addEventListener("log", (event) => {
      this.lines.add(JSON.parse(event.data) as Entry);
      this.cursor = Number(event.lastEventId);
      this.scheduleUpdate();
    });
    source.addEventListener("end", () => {
      this.disconnect();
      this.setPhase("ended");
    });
    // EventSource does not expose the status, so recover() requests it.
    source.addEventListener("error", () => void this.recover());
    this.source = source;
  }

  private async recover(): Promise<void> {
    const connection = this.disconnect();
    this.setPhase("reconnecting");
    let rejection: unknown = null;
    try {
      const query = { cursor: this.cursor, attempt: this.attempt };
      await unwrap(client.GET(`${RUN}/logs`, { params: { path: { run_id: this.id }, query } }));
    } catch (error) {
      if (isProblem(error) && FINAL_STATUSES.includes(error.problem.status)) rejection = error;
    }
    // The tab may have been hidden or shown in the meantime.
    if (connection !== this.connection) return;
    if (rejection) {
      this.error = rejection;
      this.setPhase("rejected");
      return;
    }
    this.timer = setTimeout(() => this.connect("reconnecting"), this.pause);
    this.pause = Math.min(2 * this.pause, MAX_PAUSE_MS);
  }

  private disconnect(): number {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
    this.connection += 1;
    return this.connection;
  }

  private setPhase(phase: Phase): void {
    this.phase = phase;
    this.scheduleUpdate();
  }

  private scheduleUpdate(): void {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      this.onChange();
    });
  }
}
