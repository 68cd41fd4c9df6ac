/** How much memory to ask for after too little. */
import type { Setting } from "../api/plans";
import { type Run, usePlanOf } from "../api/runs";
import { joinAmount, splitAmount } from "../forms/quantities";

/** Twice what each pod of a run had; nothing while that is not known. */
export function useMoreMemory(run: Run): string | undefined {
  const plan = usePlanOf(run.id);
  return doubleMemory(plan.data?.settings ?? []);
}

/** Of what held it back: its limit, or else what it asked for. */
export function doubleMemory(settings: Setting[]): string | undefined {
  const said = (path: string) => settings.find((setting) => setting.path === path)?.value;
  const known = [said("resources.mem.limits"), said("resources.mem.requests")];
  const had = known.map((value) => splitAmount(value, "")).find((amount) => Number(amount.number) > 0);
  return had && joinAmount({ ...had, number: String(2 * Number(had.number)) });
}
