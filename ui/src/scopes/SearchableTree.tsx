/** The organization tree, with a search field if it is long. */
import { Text } from "@mantine/core";
import { IconSearch } from "@tabler/icons-react";
import { useEffect, useRef, useState } from "react";
import { matching, type Scope } from "../api/scopes";
import { TextField } from "../forms/TextField";
import { ScopeTree } from "./ScopeTree";
import classes from "./ScopeTree.module.css";

const SEARCH_THRESHOLD = 12;

interface Props {
  scopes: Scope[];
  marked: string | null;
  onChoose: (scope: string) => void;
  label: string;
  mayChoose?: (record: Scope) => boolean;
}

export function SearchableTree({ scopes, ...tree }: Props) {
  const [search, setSearch] = useState("");
  const matches = search ? matching(scopes, search) : scopes;
  const branches = useRef<HTMLDivElement>(null);
  const { marked } = tree;
  useEffect(() => {
    if (marked)
      branches.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" });
  }, [marked]);
  return (
    <>
      {scopes.length > SEARCH_THRESHOLD && (
        <TextField
          size="xs"
          mb={6}
          aria-label="Search scopes"
          placeholder="Search"
          leftSection={<IconSearch size={14} stroke={1.6} />}
          value={search}
          onChange={setSearch}
        />
      )}
      <div ref={branches} className={classes.branches}>
        <ScopeTree scopes={matches} {...tree} />
        {search && matches.length === 0 && (
          <Text size="sm" c="dimmed" p="xs">
            No matching scopes.
          </Text>
        )}
      </div>
    </>
  );
}
