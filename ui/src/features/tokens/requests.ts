/** What is asked of the server about tokens. */
import { useQuery } from "@tanstack/react-query";
import { useChange } from "../../api/changes";
import { client, type Schemas, unwrap } from "../../api/client";
import { loadPage } from "../../api/lists";

export type Token = Schemas["TokenView"];
export type TokenRequest = Schemas["TokenRequest"];

export const TOKENS = "/api/v1/tokens";

export function useCreateToken() {
  return useChange((asked: TokenRequest) => unwrap(client.POST(TOKENS, { body: asked })));
}

export function useRevoke() {
  return useChange((token: Token) =>
    unwrap(client.DELETE(`${TOKENS}/{token_id}`, { params: { path: { token_id: token.id } } })),
  );
}

/** The sessions of somebody that still let in. One of them is this page's; which one, no script can know. */
export function useSessions(user: string | undefined) {
  return useQuery({
    queryKey: [TOKENS, "sessions", user],
    queryFn: async () => {
      const now = new Date().toISOString();
      const asked = new URLSearchParams({
        purpose: "session",
        user: user!,
        expires_at: `>${now}`,
        limit: "100",
      });
      return (await loadPage(TOKENS, asked)).items;
    },
    enabled: user !== undefined,
  });
}
