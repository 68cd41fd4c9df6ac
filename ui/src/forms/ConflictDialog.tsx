/** Shows an edit conflict: the differences between the two versions, and the ways to resolve it. */
import { Button, Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useId } from "react";
import { Differences } from "../format/Differences";
import { showAge } from "../format/times";
import { listDifferences } from "../format/values";
import { Dialog } from "../shell/Dialog";
import { Loading } from "../shell/Loading";
import { ProblemAlert } from "../shell/Problem";

interface Stored {
  revision: number;
  /** Platform settings do not record who saved them. */
  updated_by?: string;
  updated_at?: string;
}

interface Props<Item extends Stored | null> {
  /** Loads the stored version. Returns null if it was deleted. */
  load: () => Promise<Item>;
  /** The revision that was edited. Undefined if the item is new. */
  baseRevision?: number;
  /** Returns both versions as request bodies, so that only edited values differ. */
  compare: (theirs: Item) => { theirs: unknown; mine: unknown };
  onKeepEditing: () => void;
  onTakeTheirs: (theirs: Item) => void;
  onSaveMine: (theirs: Item) => void;
}

export function ConflictDialog<Item extends Stored | null>({
  load,
  baseRevision,
  compare,
  ...choices
}: Props<Item>) {
  const { data: theirs, error } = useQuery({
    // Never read this from the cache: an older version would hide other people's changes.
    queryKey: ["conflict", useId(), baseRevision],
    queryFn: load,
    gcTime: 0,
    staleTime: 0,
  });
  const title = theirs === null ? "Deleted by someone else" : "Someone else saved changes";
  return (
    <Dialog onClose={choices.onKeepEditing} size="xl" title={title}>
      <ProblemAlert error={error} />
      {theirs === undefined && !error && <Loading />}
      {theirs !== undefined && (
        <Stack>
          <Text size="sm">
            {theirs?.updated_at &&
              `Revision ${theirs.revision} was saved by ${theirs.updated_by} ${showAge(theirs.updated_at)}. `}
            {baseRevision === undefined
              ? "There was no saved version when you started."
              : `You started from revision ${baseRevision}.`}{" "}
            Differences:
          </Text>
          <Compared {...compare(theirs)} />
          <Group justify="flex-end">
            <Button variant="default" onClick={choices.onKeepEditing}>
              Keep editing
            </Button>
            <Button variant="default" onClick={() => choices.onTakeTheirs(theirs)}>
              Discard mine
            </Button>
            <Button onClick={() => choices.onSaveMine(theirs)}>
              {theirs ? "Overwrite" : "Create again"}
            </Button>
          </Group>
        </Stack>
      )}
    </Dialog>
  );
}

function Compared({ theirs, mine }: { theirs: unknown; mine: unknown }) {
  return <Differences differences={listDifferences(theirs, mine)} titles={["Theirs", "Yours"]} />;
}
