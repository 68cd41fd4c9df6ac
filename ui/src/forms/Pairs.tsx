import { useFinding } from "./findings";
import { Rows } from "./Rows";
import type { Pair } from "./requirements/rows";
import { Notes } from "./resolved";
import { TextField } from "./TextField";

interface Props {
  title: string;
  noun: string;
  /** Labels of the two columns. */
  columns: [string, string];
  rows: Pair[];
  onChange: (rows: Pair[]) => void;
  path: string;
  description?: string;
}

export function Pairs({ columns, path, ...rows }: Props) {
  const finding = useFinding();
  return (
    <Rows
      {...rows}
      error={finding(path)}
      notes={<Notes path={path} />}
      create={() => ({ key: "", value: "" })}
      render={(pair, change, label) =>
        (["key", "value"] as const).map((part, at) => (
          <TextField
            key={part}
            flex={1}
            aria-label={`${label}: ${columns[at]}`}
            placeholder={columns[at]}
            value={pair[part]}
            onChange={(text) => change({ [part]: text })}
          />
        ))
      }
    />
  );
}
