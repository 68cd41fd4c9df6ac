import { isProblem } from "../../api/problems";
import { splitScope } from "../../api/scopes";
import { ConflictDialog } from "../../forms/ConflictDialog";
import { type FunctionDraft, readDraft, writeFunction } from "./drafts";
import { type FunctionRecord, loadCode, loadFunction } from "./requests";

type Theirs = FunctionRecord & { draft: FunctionDraft };

interface Props {
  original: FunctionRecord;
  draft: FunctionDraft;
  onKeepEditing: () => void;
  onTakeTheirs: (theirs: FunctionRecord | undefined, draft: FunctionDraft) => void;
  onSaveMine: (theirs: FunctionRecord | undefined) => void;
}

/** Shown if someone else has saved or deleted the function since the form was opened. */
export function FunctionConflictDialog({ original, draft, onKeepEditing, onTakeTheirs, onSaveMine }: Props) {
  return (
    <ConflictDialog<Theirs | null>
      baseRevision={original.revision}
      load={() => load(original)}
      compare={(theirs) => ({
        theirs: theirs ? writeFunction(theirs.draft, theirs) : {},
        mine: writeFunction(draft, original),
      })}
      onKeepEditing={onKeepEditing}
      onTakeTheirs={(theirs) => onTakeTheirs(theirs ?? undefined, theirs?.draft ?? readDraft())}
      onSaveMine={(theirs) => onSaveMine(theirs ?? undefined)}
    />
  );
}

async function load(original: FunctionRecord): Promise<Theirs | null> {
  try {
    const theirs = await loadFunction(splitScope(original.scope).name, original.name);
    return { ...theirs, draft: readDraft(theirs, await loadCode(theirs)) };
  } catch (error) {
    if (isProblem(error, "not_found")) return null;
    throw error;
  }
}
