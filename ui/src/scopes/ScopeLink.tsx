/** The name of a scope. Clicking it shows the scope's position in the organization tree. */
import { Anchor, ScrollArea } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useScopes } from "../api/scopes";
import { Dialog } from "../shell/Dialog";
import { ScopeTree } from "./ScopeTree";

export function ScopeLink({ scope }: { scope: string }) {
  const [isOpen, { open, close }] = useDisclosure();
  return (
    <>
      <Anchor component="button" type="button" size="sm" fz="inherit" onClick={open}>
        {scope}
      </Anchor>
      {isOpen && <ScopeDialog scope={scope} onClose={close} />}
    </>
  );
}

function ScopeDialog({ scope, onClose }: { scope: string; onClose: () => void }) {
  const scopes = useScopes();
  return (
    <Dialog onClose={onClose} title={`Scope: ${scope === "platform" ? "Platform" : scope}`}>
      <ScrollArea.Autosize mah="60vh">
        <ScopeTree scopes={scopes.data ?? []} marked={scope} />
      </ScrollArea.Autosize>
    </Dialog>
  );
}
