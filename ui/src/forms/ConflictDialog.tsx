/** Somebody else saved first: shows both versions, and lets one choose. */
import { Button, Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useId } from "react";
import { Differences } from "../format/Differences";
import { showAge } from "../format/times";
import { listDifferences } from "../format/values";
import { Dialog } from "../shell/Dialog";
import { Loading } from "../shell/Loading";
import { ProblemAlert } from "../shell/Problem";

interface Kept {
  revision: number;
  /** The settings of the platform do not say who saved them. */
  updated_by?: string;
  updated_at?: string;
}

interface Props<Item extends Kept | null> {
  /** Reads it as it is kept now: null where it was deleted. */
  load: () => Promise<Item>;
  /** The revision that one began with; left out where there was none. */
  began?: number;
  /** Both as they would be sent, so that only what was changed differs. */
  compare: (theirs: Item) => { theirs: unknown; mine: unknown };
  onKeepEditing: () => void;
  onTakeTheirs: (theirs: Item) => void;
  onSaveMine: (theirs: Item) => void;
}

export function ConflictDialog<Item extends Kept | null>({ load, began, compare, ...choices }: Props<Item>) {
  const { data: theirs, error } = useQuery({
    queryKey: ["conflict", useId(), began],
    queryFn: load,
    gcTime: 0,
    staleTime: 0,
  });
  const title = theirs === null ? "Somebody else deleted it" : "Somebody else saved it first";
  return (
    <Dialog onClose={choices.onKeepEditing} size="xl" title={title}>
      <ProblemAlert error={error} />
      {theirs === undefined && !error && <Loading />}
      {theirs !== undefined && (
        <Stack>
          <Text size="sm">
            {theirs?.updated_at &&
              `${theirs.updated_by} saved revision ${theirs.revision} ${showAge(theirs.updated_at)}. `}
            {began === undefined ? "There was none when you began." : `You began with revision ${began}.`}{" "}
            This is where the two differ:
          </Text>
          <Compared {...compare(theirs)} />
          <Group justify="flex-end">
            <Button variant="default" onClick={choices.onKeepEditing}>
              Keep editing
            </Button>
            <Button variant="default" onClick={() => choices.onTakeTheirs(theirs)}>
              Take theirs
            </Button>
            <Button onClick={() => choices.onSaveMine(theirs)}>
              {theirs ? "Save yours over it" : "Save yours again"}
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
