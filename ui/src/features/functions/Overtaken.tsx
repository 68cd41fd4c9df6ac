import { isProblem } from "../../api/problems";
import { splitScope } from "../../api/scopes";
import { ConflictDialog } from "../../forms/ConflictDialog";
import { type FunctionDraft, readDraft, writeFunction } from "./drafts";
import { type FunctionRecord, loadCode, loadFunction } from "./requests";

type Theirs = FunctionRecord & { draft: FunctionDraft };

interface Props {
  read: FunctionRecord;
  draft: FunctionDraft;
  onKeepEditing: () => void;
  onTakeTheirs: (theirs: FunctionRecord | undefined, draft: FunctionDraft) => void;
  onSaveMine: (theirs: FunctionRecord | undefined) => void;
}

/** Somebody else saved the function, or deleted it, since the form was opened. */
export function Overtaken({ read, draft, onKeepEditing, onTakeTheirs, onSaveMine }: Props) {
  return (
    <ConflictDialog<Theirs | null>
      baseRevision={read.revision}
      load={() => load(read)}
      compare={(theirs) => ({
        theirs: theirs ? writeFunction(theirs.draft, theirs) : {},
        mine: writeFunction(draft, read),
      })}
      onKeepEditing={onKeepEditing}
      onTakeTheirs={(theirs) => onTakeTheirs(theirs ?? undefined, theirs?.draft ?? readDraft())}
      onSaveMine={(theirs) => onSaveMine(theirs ?? undefined)}
    />
  );
}

async function load(read: FunctionRecord): Promise<Theirs | null> {
  try {
    const theirs = await loadFunction(splitScope(read.scope).name, read.name);
    return { ...theirs, draft: readDraft(theirs, await loadCode(theirs)) };
  } catch (error) {
    if (isProblem(error, "not_found")) return null;
    throw error;
  }
}
