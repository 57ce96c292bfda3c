//! The table of secrets with a known shape: what each starts with, and how many of which characters follow. It holds
//! only facts (prefix, alphabet, length) from the vendors and gitleaks' public rules. docs/REDACT.md has the same table
//! for people, and a test keeps the two equal.

use super::class::{ALNUM, BASE64, BEARER, Class, DIGIT, DOTTED, HEX, LOWER, TOKEN, UPPER, WORD};

/// A kind of secret with a known shape.
#[derive(Debug)]
pub struct Shape {
    /// The vendor.
    pub name: &'static str,
    /// The texts that it starts with, or has in its middle if something comes before them.
    pub starts: &'static [&'static str],
    pub(super) before: Option<(Class, usize, usize)>,
    pub(super) body: &'static [Part],
    pub(super) stands: Stands,
}

/// A part of the rest.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// At least this many of these characters, and all that follow.
    Of(Class, usize),
    /// Exactly this text.
    Is(&'static str),
}

/// Which characters may surround it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stands {
    /// Any: nothing else looks like it.
    Anywhere,
    /// No letter or digit before it.
    AtWord,
    /// No letter, digit or dash before it, and the rest mixes digits, capitals and small letters, or is hex: no name in
    /// code looks so.
    Mixed,
    /// No letter, digit, `+` or `/` before or after it, so that it is not part of a longer word or of encoded bytes.
    AsWord,
}

use Part::{Is, Of};
use Stands::{Anywhere, AsWord, AtWord, Mixed};

impl Shape {
    const fn new(name: &'static str, starts: &'static [&'static str], body: &'static [Part], stands: Stands) -> Self {
        Self { name, starts, before: None, body, stands }
    }

    const fn behind(
        name: &'static str,
        before: (Class, usize, usize),
        starts: &'static [&'static str],
        body: &'static [Part],
    ) -> Self {
        Self { name, starts, before: Some(before), body, stands: AtWord }
    }

    /// Describes the rest in words: `20 or more of A-Z a-z 0-9 _ -`.
    pub fn rest(&self) -> String {
        let part = |part: &Part| match part {
            Of(class, least) => format!("{least} or more of {}", class.words()),
            Is(text) => format!("`{text}`"),
        };
        let rest = self.body.iter().map(part).collect::<Vec<_>>().join(", ");
        match self.before {
            Some((class, least, most)) if least == most => format!("{least} of {} before it; {rest}", class.words()),
            Some((class, least, most)) => format!("{least} to {most} of {} before it; {rest}", class.words()),
            None => rest,
        }
    }

    /// Makes the shortest possible example, for tests and documentation. With `short`, one character is missing, and it
    /// is not a secret.
    pub fn example(&self, start: &str, short: bool) -> String {
        let of = |class: &Class, count: usize| {
            let all: Vec<char> = (33..127u8).filter(|byte| class.has(*byte)).map(char::from).collect();
            let plain: Vec<char> = all.iter().copied().filter(char::is_ascii_alphanumeric).collect();
            (0..count).map(|at| plain[(at * 7 + 3) % plain.len()]).collect::<String>()
        };
        let before = self.before.map(|(class, least, _)| of(&class, least)).unwrap_or_default();
        let mut left = usize::from(short);
        let body: String = self
            .body
            .iter()
            .rev()
            .map(|part| match part {
                Of(class, least) => of(class, least - std::mem::take(&mut left)),
                Is(text) => (*text).to_owned(),
            })
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .collect();
        before + start + &body
    }
}

/// Every known kind.
pub static SHAPES: &[Shape] = &[
    Shape::new("Anthropic", &["sk-ant-"], &[Of(TOKEN, 8)], Anywhere),
    Shape::new("OpenAI", &["sk-proj-", "sk-svcacct-", "sk-admin-", "sk-None-"], &[Of(TOKEN, 8)], Anywhere),
    Shape::new("OpenAI and those that follow it", &["sk-"], &[Of(ALNUM, 20)], AtWord),
    Shape::new("OpenAI session", &["sess-"], &[Of(ALNUM, 40)], AtWord),
    Shape::new("OpenRouter", &["sk-or-"], &[Of(TOKEN, 16)], Anywhere),
    Shape::new("GitHub", &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], &[Of(WORD, 20)], Anywhere),
    Shape::new("GitHub fine-grained", &["github_pat_"], &[Of(WORD, 20)], Anywhere),
    Shape::new(
        "GitLab",
        &[
            "glpat-",
            "gldt-",
            "glrt-",
            "glrtr-",
            "glptt-",
            "glagent-",
            "gloas-",
            "glsoat-",
            "glimt-",
            "glft-",
            "glffct-",
            "glcbt-",
            "glwt-",
            "GR1348941",
        ],
        &[Of(DOTTED, 16)],
        Anywhere,
    ),
    Shape::new("AWS access key", &["AKIA", "ASIA", "ABIA", "ACCA"], &[Of(Class(UPPER.0 | DIGIT.0), 16)], Anywhere),
    Shape::new("AWS Bedrock", &["ABSK"], &[Of(BASE64, 100)], AtWord),
    Shape::new("AWS Bedrock, short-lived", &["bedrock-api-key-"], &[Of(BASE64, 20)], Anywhere),
    Shape::new(
        "Slack",
        &["xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxo-", "xoxe-", "xoxe.xoxb-", "xoxe.xoxp-", "xoxc-", "xoxd-"],
        &[Of(TOKEN, 10)],
        Anywhere,
    ),
    Shape::new("Slack app", &["xapp-"], &[Of(DIGIT, 1), Is("-"), Of(TOKEN, 10)], Anywhere),
    Shape::new(
        "Slack webhook",
        &["hooks.slack.com/services/", "hooks.slack.com/workflows/", "hooks.slack.com/triggers/"],
        &[Of(BASE64, 20)],
        Anywhere,
    ),
    Shape::new(
        "Stripe, Clerk",
        &["sk_live_", "sk_test_", "sk_prod_", "rk_live_", "rk_test_", "rk_prod_"],
        &[Of(ALNUM, 10)],
        Anywhere,
    ),
    Shape::new("Stripe webhook", &["whsec_"], &[Of(BASE64, 20)], Anywhere),
    Shape::new("Google API key", &["AIza"], &[Of(TOKEN, 30)], Anywhere),
    Shape::new("Google OAuth secret", &["GOCSPX-"], &[Of(TOKEN, 20)], Anywhere),
    Shape::new("Google access token", &["ya29."], &[Of(DOTTED, 20)], Anywhere),
    Shape::new("Google refresh token", &["1//0"], &[Of(TOKEN, 30)], AtWord),
    Shape::new("npm", &["npm_"], &[Of(ALNUM, 30)], Anywhere),
    Shape::new("PyPI", &["pypi-"], &[Of(TOKEN, 50)], Anywhere),
    Shape::new("Hugging Face", &["hf_", "api_org_"], &[Of(ALNUM, 30)], AtWord),
    Shape::behind("Azure AD client secret", (DOTTED, 4, 4), &["Q~"], &[Of(DOTTED, 31)]),
    Shape::new("SendGrid", &["SG."], &[Of(TOKEN, 16), Is("."), Of(TOKEN, 32)], Anywhere),
    Shape::new("Twilio", &["SK"], &[Of(HEX, 32)], AsWord),
    Shape::new("DigitalOcean", &["dop_v1_", "doo_v1_", "dor_v1_"], &[Of(HEX, 32)], Anywhere),
    Shape::new("Databricks", &["dapi", "dkea"], &[Of(HEX, 32)], AtWord),
    Shape::new(
        "Doppler",
        &["dp.pt.", "dp.st.", "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit.", "dp.said."],
        &[Of(DOTTED, 30)],
        Anywhere,
    ),
    Shape::new("Linear", &["lin_api_", "lin_oauth_", "lin_wh_"], &[Of(ALNUM, 32)], Anywhere),
    Shape::new("Notion", &["ntn_", "secret_"], &[Of(ALNUM, 40)], AtWord),
    Shape::new("Atlassian", &["ATATT3", "ATCTT3", "ATSTT3", "ATBB"], &[Of(Class(TOKEN.0 | Class::EQUALS), 24)], Anywhere),
    Shape::new("Shopify", &["shpat_", "shpca_", "shppa_", "shpss_", "shptka_"], &[Of(HEX, 32)], Anywhere),
    Shape::new("Square", &["sq0atp-", "sq0csp-", "sq0idp-"], &[Of(TOKEN, 22)], Anywhere),
    Shape::new("Square, Facebook", &["EAAA", "EAAM", "EAAC"], &[Of(TOKEN, 50)], AsWord),
    Shape::new("Mailgun", &["key-"], &[Of(HEX, 32)], AsWord),
    Shape::behind("Mailchimp", (HEX, 32, 32), &["-us"], &[Of(DIGIT, 1)]),
    Shape::behind("Telegram bot", (DIGIT, 6, 12), &[":AA"], &[Of(TOKEN, 32)]),
    Shape::new(
        "Discord bot",
        &["MD", "MT", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT"],
        &[Of(TOKEN, 20), Is("."), Of(TOKEN, 6), Is("."), Of(TOKEN, 27)],
        AtWord,
    ),
    Shape::new(
        "Discord webhook",
        &["discord.com/api/webhooks/", "discordapp.com/api/webhooks/"],
        &[Of(DIGIT, 10), Is("/"), Of(TOKEN, 30)],
        Anywhere,
    ),
    Shape::new("age", &["AGE-SECRET-KEY-1"], &[Of(Class(UPPER.0 | DIGIT.0), 40)], Anywhere),
    Shape::new("HashiCorp Vault", &["hvs.", "hvb.", "hvr."], &[Of(TOKEN, 20)], Anywhere),
    Shape::behind("Terraform Cloud", (ALNUM, 14, 14), &[".atlasv1."], &[Of(TOKEN, 50)]),
    Shape::new("Docker", &["dckr_pat_", "dckr_oat_"], &[Of(TOKEN, 20)], Anywhere),
    Shape::new("Fly.io", &["fo1_", "fm1a_", "fm1r_", "fm2_"], &[Of(Class(BASE64.0 | TOKEN.0), 40)], AtWord),
    Shape::new("Netlify", &["nfp_", "nfc_", "nfo_", "nfu_", "nfb_"], &[Of(TOKEN, 30)], AtWord),
    Shape::new("Vercel", &["vcp_", "vci_", "vca_", "vcr_", "vck_"], &[Of(ALNUM, 24)], AtWord),
    Shape::new("Supabase", &["sbp_", "sb_secret_"], &[Of(WORD, 20)], AtWord),
    Shape::new("PlanetScale", &["pscale_tkn_", "pscale_pw_", "pscale_oauth_"], &[Of(DOTTED, 30)], Anywhere),
    Shape::new("Postman", &["PMAK-"], &[Of(HEX, 24), Is("-"), Of(HEX, 32)], Anywhere),
    Shape::new("New Relic", &["NRAK-", "NRJS-", "NRII-", "NRRA-"], &[Of(TOKEN, 19)], Anywhere),
    Shape::new("Grafana", &["glc_", "glsa_"], &[Of(Class(BASE64.0 | WORD.0), 32)], Anywhere),
    Shape::new("Sentry", &["sntrys_", "sntryu_", "sntrya_", "sntryi_"], &[Of(Class(BASE64.0 | WORD.0), 40)], Anywhere),
    Shape::new("Cloudflare origin CA", &["v1.0-"], &[Of(HEX, 24), Is("-"), Of(HEX, 100)], AtWord),
    Shape::new("Cloudflare", &["cfut_", "cfat_", "cfk_"], &[Of(TOKEN, 30)], AtWord),
    Shape::new("RubyGems", &["rubygems_"], &[Of(HEX, 32)], Anywhere),
    Shape::new("crates.io", &["cio"], &[Of(ALNUM, 32)], AsWord),
    Shape::new("NuGet", &["oy2"], &[Of(Class(LOWER.0 | DIGIT.0), 43)], AsWord),
    Shape::new("Artifactory", &["AKCp"], &[Of(ALNUM, 60)], AtWord),
    Shape::new("Artifactory reference", &["cmVmd"], &[Of(ALNUM, 59)], AtWord),
    Shape::new("Perplexity", &["pplx-"], &[Of(ALNUM, 40)], Anywhere),
    Shape::new("Groq", &["gsk_"], &[Of(ALNUM, 32)], AtWord),
    Shape::new("xAI", &["xai-"], &[Of(WORD, 32)], AtWord),
    Shape::new("Replicate", &["r8_"], &[Of(ALNUM, 32)], AtWord),
    Shape::new("web token (JWT)", &["eyJ"], &[Of(TOKEN, 8), Is(".eyJ"), Of(TOKEN, 4), Is("."), Of(TOKEN, 10)], Anywhere),
    Shape::new("web token, encrypted (JWE) or unsigned", &["eyJ"], &[Of(TOKEN, 16), Is("."), Of(DOTTED, 40)], Anywhere),
    Shape::new("1Password service account", &["ops_eyJ"], &[Of(BASE64, 60)], Anywhere),
    Shape::new("1Password secret key", &["A3-"], &[Of(UPPER_OR_DIGIT, 6), Is("-"), Of(UPPERS_DASHED, 22)], AtWord),
    Shape::new("Alibaba", &["LTAI"], &[Of(ALNUM, 16)], AtWord),
    Shape::new("Airtable", &["pat"], &[Of(ALNUM, 14), Is("."), Of(HEX, 60)], AtWord),
    Shape::new("Pulumi", &["pul-"], &[Of(HEX, 40)], AtWord),
    Shape::new("Prefect", &["pnu_", "pnb_"], &[Of(ALNUM, 36)], AtWord),
    Shape::new("ReadMe", &["rdme_"], &[Of(ALNUM, 60)], AtWord),
    Shape::new("Brevo", &["xkeysib-", "xsmtpsib-"], &[Of(TOKEN, 40)], Anywhere),
    Shape::new("Typeform", &["tfp_"], &[Of(DOTTED, 40)], AtWord),
    Shape::new("Dynatrace", &["dt0c01.", "dt0s01.", "dt0s16."], &[Of(ALNUM, 8), Is("."), Of(ALNUM, 40)], Anywhere),
    Shape::new("EasyPost", &["EZAK", "EZTK"], &[Of(ALNUM, 50)], AtWord),
    Shape::new("SonarQube", &["squ_", "sqp_", "sqa_"], &[Of(HEX, 40)], AtWord),
    Shape::new("Sourcegraph", &["sgp_"], &[Of(WORD, 40)], AtWord),
    Shape::new("Heroku", &["HRKU-"], &[Of(TOKEN, 32)], Anywhere),
    Shape::new("LangSmith", &["lsv2_pt_", "lsv2_sk_"], &[Of(WORD, 30)], Anywhere),
    Shape::new("Tailscale", &["tskey-"], &[Of(TOKEN, 16)], Anywhere),
    Shape::new("Figma", &["figd_", "figo_"], &[Of(TOKEN, 30)], AtWord),
    Shape::new("Contentful", &["CFPAT-"], &[Of(TOKEN, 32)], Anywhere),
    Shape::new("Buildkite", &["bkua_"], &[Of(HEX, 40)], AtWord),
    Shape::new("CircleCI", &["CCIPAT_", "CCIPRJ_"], &[Of(WORD, 30)], Anywhere),
    Shape::new("Render", &["rnd_"], &[Of(ALNUM, 24)], AtWord),
    Shape::new("Resend", &["re_"], &[Of(ALNUM, 8), Is("_"), Of(ALNUM, 20)], AtWord),
    Shape::new("Octopus Deploy", &["API-"], &[Of(UPPER_OR_DIGIT, 26)], AsWord),
    Shape::new("OpenShift", &["sha256~"], &[Of(TOKEN, 40)], AtWord),
    Shape::new("NVIDIA", &["nvapi-"], &[Of(TOKEN, 40)], AtWord),
    Shape::new("Langfuse", &["sk-lf-"], &[Of(TOKEN, 30)], Anywhere),
    Shape::new("Cerebras", &["csk-"], &[Of(ALNUM, 40)], AtWord),
    Shape::new("ElevenLabs, Novita, RevenueCat, Svix", &["sk_", "testsk_"], &[Of(TOKEN, 28)], Mixed),
    Shape::new("Tavily", &["tvly-dev-", "tvly-prod-"], &[Of(ALNUM, 20)], Anywhere),
    Shape::new("Firecrawl", &["fc-"], &[Of(HEX, 32)], AsWord),
    Shape::new("Jina", &["jina_"], &[Of(WORD, 50)], AtWord),
    Shape::new("E2B", &["e2b_"], &[Of(HEX, 40)], AtWord),
    Shape::new("Browserbase", &["bb_live_"], &[Of(TOKEN, 24)], AtWord),
    Shape::new("Pinecone", &["pcsk_"], &[Of(WORD, 40)], AtWord),
    Shape::new("Neon", &["napi_"], &[Of(ALNUM, 40)], AtWord),
    Shape::new("PostHog", &["phx_", "pha_", "phr_", "phs_"], &[Of(TOKEN, 36)], AtWord),
    Shape::new("Honeycomb", &["hcaik_", "hcaic_", "hcaak_", "hcalk_", "hcamk_"], &[Of(ALNUM, 50)], AtWord),
    Shape::new("Axiom", &["xaat-", "xapt-"], UUID, AtWord),
    Shape::new("Unkey", &["unkey_"], &[Of(ALNUM, 20)], AtWord),
    Shape::new("Deno Deploy", &["ddp_", "ddo_"], &[Of(ALNUM, 36)], AtWord),
    Shape::new("Adafruit", &["aio_"], &[Of(ALNUM, 28)], AtWord),
    Shape::new("Adobe", &["p8e-"], &[Of(ALNUM, 32)], AtWord),
    Shape::new("Dropbox", &["sl."], &[Of(TOKEN, 120)], AtWord),
    Shape::new("HubSpot", &["pat-na1-", "pat-na2-", "pat-eu1-", "pat-ap1-"], UUID, AtWord),
    Shape::new("Mapbox", &["sk.eyJ", "tk.eyJ"], &[Of(TOKEN, 40), Is("."), Of(TOKEN, 20)], AtWord),
    Shape::new("Razorpay", &["rzp_live_", "rzp_test_"], &[Of(ALNUM, 14)], Anywhere),
    Shape::new("Plaid", &["access-production-", "access-development-", "access-sandbox-"], UUID, AtWord),
    Shape::new(
        "PayPal",
        &["access_token$production$", "access_token$sandbox$"],
        &[Of(ALNUM, 16), Is("$"), Of(HEX, 32)],
        AtWord,
    ),
    Shape::new("Amazon MWS", &["amzn.mws."], UUID, AtWord),
    Shape::new("Google authorization code", &["4/0A"], &[Of(TOKEN, 50)], AsWord),
    Shape::behind("Azure AI, Azure DevOps", (ALNUM, 52, 52), &["JQQJ99"], &[Of(ALNUM, 26)]),
    Shape::new("Google API key, new", &["AQ.Ab"], &[Of(TOKEN, 40)], AtWord),
    Shape::new("Weights & Biases", &["wandb_v1_"], &[Of(WORD, 40)], Anywhere),
    Shape::new("Together", &["tgp_v1_"], &[Of(TOKEN, 40)], Anywhere),
    Shape::new("Cursor", &["crsr_"], &[Of(ALNUM, 40)], AtWord),
    Shape::new("Cursor, old; Runway, Retell", &["key_"], &[Of(HEX, 28)], AtWord),
    Shape::new("Devin", &["apk_user_", "apk_"], &[Of(BASE64, 80)], AtWord),
    Shape::new("Devin service user", &["cog_"], &[Of(Class(LOWER.0 | DIGIT.0), 50)], AtWord),
    Shape::new("Amp", &["sgamp_user_"], &[Of(WORD, 30)], AtWord),
    Shape::new("Factory", &["fk-"], &[Of(TOKEN, 40)], AtWord),
    Shape::new("Windsurf", &["sk-ws-"], &[Of(TOKEN, 30)], AtWord),
    Shape::new("OpenAI realtime", &["ek_"], &[Of(HEX, 32)], AtWord),
    Shape::new("Stripe organization", &["sk_org_live_", "sk_org_test_"], &[Of(ALNUM, 10)], AtWord),
    Shape::new("Stripe ephemeral key", &["ek_live_", "ek_test_"], &[Of(ALNUM, 20)], AtWord),
    Shape::new("Fireworks", &["fw_"], &[Of(ALNUM, 22)], AtWord),
    Shape::new("Tavily, old", &["tvly-"], &[Of(ALNUM, 28)], AtWord),
    Shape::new("Voyage", &["pa-"], &[Of(TOKEN, 43)], AsWord),
    Shape::new("Cartesia", &["sk_car_", "sk_car_admin_"], &[Of(ALNUM, 16)], AtWord),
    Shape::new("Daytona", &["dtn_"], &[Of(HEX, 60)], AtWord),
    Shape::new("RunPod, redirect.pizza", &["rpa_"], &[Of(ALNUM, 30)], AtWord),
    Shape::new("Context7", &["ctx7sk-"], &[Of(TOKEN, 30)], AtWord),
    Shape::new("LlamaCloud", &["llx-"], &[Of(ALNUM, 40)], AtWord),
    Shape::new("Mem0", &["m0-"], &[Of(ALNUM, 38)], AtWord),
    Shape::new("Brave", &["BSA"], &[Of(TOKEN, 27)], AsWord),
    Shape::new("Helicone", &["sk-helicone-"], &[Of(TOKEN, 24)], AtWord),
    Shape::new("Braintrust", &["bt-st-"], &[Of(ALNUM, 40)], AtWord),
    Shape::new("MiniMax", &["sk-api-"], &[Of(TOKEN, 60)], AtWord),
    Shape::new("Letta", &["sk-let-"], &[Of(BASE64, 40)], AtWord),
    Shape::new("Modal", &["ak-", "as-"], &[Of(ALNUM, 22)], AtWord),
    Shape::new("Chroma", &["ck-"], &[Of(ALNUM, 40)], AtWord),
    Shape::new("Nebius", &["v1.Cm"], &[Of(TOKEN, 60)], AtWord),
    Shape::new("Twelve Labs", &["tlk_"], &[Of(ALNUM, 30)], AtWord),
    Shape::new("Composio", &["ak_"], &[Of(TOKEN, 20)], AsWord),
    Shape::new("JetBrains", &["perm:", "perm-"], &[Of(BASE64, 4), Is("."), Of(BASE64, 4), Is("."), Of(ALNUM, 20)], AtWord),
    Shape::new("GitLab session", &["_gitlab_session="], &[Of(HEX, 32)], Anywhere),
    Shape::new("JSR", &["jsrp_", "jsrd_"], &[Of(ALNUM, 30)], AtWord),
    Shape::new("Sourcegraph license", &["slk_"], &[Of(HEX, 64)], AtWord),
    Shape::new("Buildkite, new", &["bkaa_", "bkaj_", "bkar_", "bkct_", "bkpt_", "bkpat_", "bkps_"], &[Of(TOKEN, 50)], AtWord),
    Shape::new("Figma, user", &["figu_"], &[Of(TOKEN, 30)], AtWord),
    Shape::new("Cloudsmith", &["csa_"], &[Of(ALNUM, 36)], AtWord),
    Shape::new("Cloudflare Access", &["cfast_"], &[Of(ALNUM, 40)], AtWord),
    Shape::new("AWS session", &["IQoJ", "FwoG"], &[Of(BASE64, 100)], AsWord),
    Shape::new("Tencent", &["AKID"], &[Of(ALNUM, 32)], AsWord),
    Shape::new("Volcengine", &["AKLT"], &[Of(ALNUM, 40)], AsWord),
    Shape::new("Alibaba STS", &["STS.N"], &[Of(ALNUM, 20)], AtWord),
    Shape::new("Scaleway access key", &["SCW"], &[Of(UPPER_OR_DIGIT, 17)], AsWord),
    Shape::new("Exoscale", &["EXO"], &[Of(Class(LOWER.0 | DIGIT.0), 24)], AsWord),
    Shape::new("Vercel Blob", &["vercel_blob_rw_"], &[Of(WORD, 30)], Anywhere),
    Shape::new("Neon password", &["npg_"], &[Of(ALNUM, 10)], AtWord),
    Shape::new("MongoDB Atlas", &["mdb_sa_sk_"], &[Of(TOKEN, 36)], Anywhere),
    Shape::new("CockroachDB", &["CCDB1_"], &[Of(WORD, 60)], AtWord),
    Shape::new("Astra DB", &["AstraCS:"], &[Of(ALNUM, 20), Is(":"), Of(HEX, 60)], Anywhere),
    Shape::new("Elastic", &["essu_"], &[Of(Class(BASE64.0 | TOKEN.0), 50)], AtWord),
    Shape::new("Databricks OAuth", &["dose"], &[Of(HEX, 32)], AtWord),
    Shape::new("New Relic license", &["eu01xx"], &[Of(HEX, 30)], AtWord),
    Shape::new("Honeycomb, new", &["hcbik_"], &[Of(ALNUM, 50)], AtWord),
    Shape::new("Infisical", &["st."], &[Of(HEX, 24), Is("."), Of(HEX, 32), Is("."), Of(HEX, 32)], AtWord),
    Shape::new("Docker Swarm", &["SWMTKN-1-", "SWMKEY-1-"], &[Of(Class(BASE64.0 | TOKEN.0), 40)], Anywhere),
    Shape::new("Kubernetes, k3s", &["K10"], &[Of(HEX, 64), Is("::"), Of(ALNUM, 4), Is(":"), Of(ALNUM, 16)], AtWord),
    Shape::new("Defined Networking", &["dnkey-"], &[Of(TOKEN, 60)], AtWord),
    Shape::new("NATS seed", &["SUA", "SAA", "SOA", "SNA", "SCA", "SXA"], &[Of(UPPER_OR_DIGIT, 55)], AsWord),
    Shape::new("Apify", &["apify_api_", "apify_proxy_"], &[Of(ALNUM, 30)], Anywhere),
    Shape::new(
        "Paddle",
        &["pdl_live_apikey_", "pdl_sdbx_apikey_", "pdl_ntfset_"],
        &[Of(Class(WORD.0 | BASE64.0), 40)],
        Anywhere,
    ),
    Shape::new("Polar", &["polar_oat_", "polar_pat_", "polar_at_", "polar_ort_"], &[Of(TOKEN, 30)], Anywhere),
    Shape::new("Samsara", &["samsara_api_"], &[Of(ALNUM, 26)], Anywhere),
    Shape::new("Mercury", &["mercury_production_"], &[Of(WORD, 40)], Anywhere),
    Shape::new("Ramp", &["ramp_sec_"], &[Of(ALNUM, 40)], AtWord),
    Shape::new("Asaas", &["$aact_prod_", "$aact_hmlg_"], &[Of(Class(WORD.0 | BASE64.0), 20)], Anywhere),
    Shape::new("Slack workflow", &["xwfp-"], &[Of(TOKEN, 30)], Anywhere),
    Shape::new("Telegram webhook", &["/bot"], &[Of(DIGIT, 6), Is(":"), Of(TOKEN, 30)], Anywhere),
    Shape::new("MailerSend", &["mlsn."], &[Of(ALNUM, 30)], AtWord),
    Shape::new("Instagram", &["IGQV", "IGAA"], &[Of(TOKEN, 100)], AtWord),
    Shape::new("Facebook", &["EAAB", "EAAD", "EAAG", "EAAI"], &[Of(ALNUM, 100)], AsWord),
    Shape::new("Pinterest", &["pina_"], &[Of(TOKEN, 40)], AtWord),
    Shape::new("OneSignal", &["os_v2_app_", "os_v2_org_"], &[Of(ALNUM, 80)], Anywhere),
    Shape::new("Canva", &["cnvca"], &[Of(TOKEN, 50)], AtWord),
    Shape::new("Ionic", &["ion_"], &[Of(ALNUM, 42)], AtWord),
    Shape::new("WakaTime", &["waka_"], UUID, AtWord),
    Shape::new("Zuplo", &["zpka_"], &[Of(WORD, 36)], AtWord),
    Shape::new("Rootly", &["rootly_"], &[Of(HEX, 64)], AtWord),
    Shape::new("Dropbox, new", &["sl.u."], &[Of(TOKEN, 100)], AtWord),
    Shape::new("Intercom", &["dG9rO"], &[Of(BASE64, 50)], AsWord),
    Shape::new("Salesforce", &["5Aep861"], &[Of(DOTTED, 60)], AtWord),
    Shape::new("Ory", &["ory_pat_", "ory_at_", "ory_rt_", "ory_st_", "ory_apikey_"], &[Of(DOTTED, 30)], AtWord),
    Shape::new("Stytch", &["secret-live-", "secret-test-"], &[Of(Class(TOKEN.0 | Class::EQUALS), 16)], Mixed),
    Shape::new("Trigger.dev", &["tr_prod_", "tr_dev_", "tr_stg_", "tr_pat_"], &[Of(ALNUM, 20)], AtWord),
    Shape::new("Inngest", &["signkey-prod-", "signkey-test-"], &[Of(HEX, 32)], AtWord),
    Shape::new("Xata", &["xau_"], &[Of(ALNUM, 30)], AtWord),
    Shape::new("Turbopuffer", &["tpuf_"], &[Of(ALNUM, 30)], AtWord),
    Shape::new("LaunchDarkly", &["sdk-", "api-"], UUID, AtWord),
    Shape::new("Aikido", &["AIK_SECRET_", "AIK_CI_", "AIK_RUNTIME_"], &[Of(WORD, 20)], AtWord),
    Shape::new("Persona", &["persona_production_"], &[Of(TOKEN, 20)], AtWord),
    Shape::new("Onfido", &["api_live.", "api_live_us.", "api_live_ca."], &[Of(TOKEN, 10), Is("."), Of(TOKEN, 20)], AtWord),
    Shape::new("ConfigCat", &["configcat-sdk-1/"], &[Of(TOKEN, 22), Is("/"), Of(TOKEN, 22)], AtWord),
    Shape::new("Socket", &["sktsec_"], &[Of(TOKEN, 30)], AtWord),
    Shape::new("Nylas", &["nyk_v0_"], &[Of(ALNUM, 40)], AtWord),
    Shape::new("Matrix", &["syt_", "mct_", "mcr_"], &[Of(TOKEN, 30)], AtWord),
    Shape::new("Klaviyo", &["pk_"], &[Of(HEX, 34)], AtWord),
    Shape::new("Yandex", &["AQVN"], &[Of(TOKEN, 35)], AsWord),
    Shape::new("age, post-quantum", &["AGE-SECRET-KEY-PQ-1", "AGE-PLUGIN-"], &[Of(UPPERS_DASHED, 40)], Anywhere),
    Shape::new("PuTTY checksum", &["Private-MAC: "], &[Of(HEX, 40)], AtWord),
    Shape::new(
        "PASETO",
        &["v1.local.", "v2.local.", "v3.local.", "v4.local.", "v1.public.", "v2.public.", "v3.public.", "v4.public."],
        &[Of(DOTTED, 64)],
        AtWord,
    ),
    Shape::new(
        "PASERK",
        &[
            "k1.local.",
            "k2.local.",
            "k3.local.",
            "k4.local.",
            "k1.secret.",
            "k2.secret.",
            "k3.secret.",
            "k4.secret.",
            "v3.secret.",
            "k1.local-pw.",
            "k2.local-pw.",
            "k3.local-pw.",
            "k4.local-pw.",
            "k1.secret-pw.",
            "k2.secret-pw.",
            "k3.secret-pw.",
            "k4.secret-pw.",
        ],
        &[Of(TOKEN, 40)],
        AtWord,
    ),
    Shape::new(
        "password, hashed (Argon2)",
        &["$argon2id$v=19$m=", "$argon2i$v=19$m=", "$argon2d$v=19$m="],
        &[Of(DIGIT, 1), Is(",t="), Of(DIGIT, 1), Is(",p="), Of(DIGIT, 1), Is("$"), Of(BASE64, 11), Is("$"), Of(BASE64, 22)],
        Anywhere,
    ),
    Shape::new("password, hashed (yescrypt)", &["$y$", "$gy$"], CRYPT, Anywhere),
    Shape::new("password, hashed (scrypt)", &["$7$"], &[Of(BEARER, 12), Is("$"), Of(BEARER, 40)], Anywhere),
    Shape::new(
        "password, hashed (scrypt of passlib)",
        &["$scrypt$ln="],
        &[Of(DIGIT, 1), Is(",r="), Of(DIGIT, 1), Is(",p="), Of(DIGIT, 1), Is("$"), Of(BASE64, 11), Is("$"), Of(BASE64, 22)],
        Anywhere,
    ),
    Shape::new("password, hashed (Werkzeug)", &["scrypt:"], WERKZEUG, AtWord),
    Shape::new("password, hashed (SCRAM)", &["SCRAM-SHA-256$", "SCRAM-SHA-512$", "SCRAM-SHA-1$"], SCRAM, Anywhere),
    Shape::new(
        "password, hashed (PBKDF2)",
        &["pbkdf2_sha256$", "pbkdf2_sha512$", "$pbkdf2-sha256$", "$pbkdf2-sha512$", "$pbkdf2$", "pbkdf2:sha256:"],
        &[Of(DIGIT, 4), Is("$"), Of(BEARER, 8), Is("$"), Of(BEARER, 27)],
        Anywhere,
    ),
    Shape::new("password, hashed (salted)", &["sha1$", "sha256$", "sha512$"], &[Of(ALNUM, 4), Is("$"), Of(HEX, 40)], AtWord),
    Shape::new("password, hashed (LDAP)", &["{SSHA}", "{SSHA256}", "{SSHA512}", "{SHA}"], &[Of(BASE64, 28)], Anywhere),
    Shape::new("password, hashed (PostgreSQL)", &["md5"], &[Of(HEX, 32)], AsWord),
    Shape::new("Clojars", &["CLOJARS_"], &[Of(ALNUM, 60)], AtWord),
    Shape::new("Duffel", &["duffel_live_", "duffel_test_"], &[Of(TOKEN, 40)], AtWord),
    Shape::new("Flutterwave", &["FLWSECK-", "FLWSECK_TEST-"], &[Of(ALNUM, 12)], AtWord),
    Shape::new("Frame.io", &["fio-u-"], &[Of(TOKEN, 60)], AtWord),
    Shape::new("Harness", &["pat.", "sat."], &[Of(TOKEN, 22), Is("."), Of(ALNUM, 24), Is("."), Of(ALNUM, 20)], AtWord),
    Shape::new("Infracost", &["ico-"], &[Of(ALNUM, 32)], AtWord),
    Shape::new("Intra 42", &["s-s4t2ud-", "s-s4t2af-"], &[Of(HEX, 64)], AtWord),
    Shape::new("Scalingo", &["tk-us-"], &[Of(TOKEN, 48)], AtWord),
    Shape::new("SettleMint", &["sm_aat_", "sm_pat_", "sm_sat_"], &[Of(ALNUM, 16)], AtWord),
    Shape::new("Shippo", &["shippo_live_", "shippo_test_"], &[Of(HEX, 40)], AtWord),
    Shape::new("Snyk", &["snyk_uat.", "snyk_sat."], &[Of(ALNUM, 8), Is("."), Of(DOTTED, 30)], AtWord),
    Shape::new("Confluent", &["cflt"], &[Of(BASE64, 56)], AsWord),
    Shape::new("Trello", &["ATTA"], &[Of(HEX, 64)], AtWord),
    Shape::new("Twitch", &["oauth:"], &[Of(ALNUM, 30)], AtWord),
    Shape::new("Grafana, old", &["eyJrIjoi"], &[Of(BASE64, 60)], AtWord),
    Shape::new(
        "Teams webhook",
        &["webhook.office.com/webhookb2/", "outlook.office.com/webhook/"],
        &[Of(TOKEN, 36), Is("@"), Of(TOKEN, 36), Is("/IncomingWebhook/"), Of(Class(BASE64.0 | TOKEN.0), 32)],
        Anywhere,
    ),
    Shape::new("Zapier webhook", &["hooks.zapier.com/hooks/catch/"], &[Of(DIGIT, 4), Is("/"), Of(ALNUM, 5)], Anywhere),
    Shape::new("web token in base64", &["ZXlKaGJHY2lPaU"], &[Of(BASE64, 40)], AtWord),
    Shape::new(
        "private key in base64",
        &[
            "LS0tLS1CRUdJTiBQUklWQVRFIEtF",
            "LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBL",
            "LS0tLS1CRUdJTiBFQyBQUklWQVRF",
            "LS0tLS1CRUdJTiBPUEVOU1NIIFBSSVZB",
            "LS0tLS1CRUdJTiBFTkNSWVBURUQgUFJJ",
        ],
        &[Of(BASE64, 40)],
        Anywhere,
    ),
    Shape::new("password, hashed (bcrypt)", &["$2a$", "$2b$", "$2y$"], &[Of(DIGIT, 2), Is("$"), Of(BEARER, 53)], Anywhere),
    Shape::new(
        "password, hashed (crypt)",
        &["$1$", "$5$", "$6$", "$8$", "$9$", "$apr1$"],
        &[Of(BEARER, 1), Is("$"), Of(BEARER, 22)],
        Anywhere,
    ),
    Shape::new(
        "password, hashed (crypt with rounds)",
        &["$5$rounds=", "$6$rounds="],
        &[Of(DIGIT, 4), Is("$"), Of(BEARER, 1), Is("$"), Of(BEARER, 22)],
        Anywhere,
    ),
    Shape::new("password, hashed (Windows)", &["aad3b435b51404eeaad3b435b51404ee:"], &[Of(HEX, 32)], Anywhere),
    Shape::new("Coze", &["pat_"], &[Of(ALNUM, 60)], AtWord),
    Shape::new("Trieve", &["tr-"], &[Of(ALNUM, 32)], AtWord),
    Shape::new("You.com", &["ydc-sk-"], &[Of(TOKEN, 16)], AtWord),
    Shape::new("Luma", &["luma-"], UUID_AND_MORE, AtWord),
    Shape::new("Depot", &["depot_project_", "depot_user_", "depot_org_"], &[Of(HEX, 64)], AtWord),
    Shape::new("NetBird", &["nbp_"], &[Of(ALNUM, 36)], AtWord),
    Shape::new("Packagist", &["packagist_"], &[Of(WORD, 60)], AtWord),
    Shape::new("Postman collection", &["PMAT-"], &[Of(ALNUM, 26)], AtWord),
    Shape::new("Apollo", &["service:"], &[Of(TOKEN, 1), Is(":"), Of(TOKEN, 22)], Mixed),
    Shape::new("Apollo user", &["user:gh."], &[Of(TOKEN, 36), Is(":"), Of(TOKEN, 22)], AtWord),
    Shape::new("Kong", &["kpat_", "spat_"], &[Of(ALNUM, 40)], AtWord),
    Shape::new("GitBook", &["gb_api_"], &[Of(ALNUM, 32)], AtWord),
    Shape::new("Statsig", &["secret-"], &[Of(ALNUM, 40)], AtWord),
    Shape::new("Flagsmith", &["ser."], &[Of(ALNUM, 22)], AtWord),
    Shape::new("Convex", &["prod:", "dev:", "preview:"], &[Of(TOKEN, 3), Is("|"), Of(Class(BASE64.0 | TOKEN.0), 40)], AtWord),
    Shape::behind("New Relic license, old", (HEX, 36, 36), &["FFFFNRA"], &[Of(UPPER, 1)]),
    Shape::new("Tigris", &["tsec_"], &[Of(TOKEN, 40)], AtWord),
    Shape::new("Backblaze", &["K001", "K002", "K003", "K004", "K005"], &[Of(BASE64, 27)], Mixed),
    Shape::new("Akamai", &["akab-"], &[Of(TOKEN, 32)], AtWord),
    Shape::new("Yandex IAM", &["t1."], &[Of(TOKEN, 60), Is("."), Of(TOKEN, 60)], AtWord),
    Shape::new("Yandex OAuth", &["y0_", "y1_", "y2_", "y3_"], &[Of(TOKEN, 50)], Mixed),
    Shape::new("Baidu", &["bce-v3/ALTAK-"], &[Of(ALNUM, 20), Is("/"), Of(HEX, 40)], Anywhere),
    Shape::new("Rancher", &["token-"], &[Of(ALNUM, 5), Is(":"), Of(ALNUM, 54)], AtWord),
    Shape::new("Portainer", &["ptr_"], &[Of(BASE64, 43)], AtWord),
    Shape::new("Pterodactyl", &["ptla_", "ptlc_"], &[Of(ALNUM, 40)], AtWord),
    Shape::new("Telnyx", &["KEY"], &[Of(HEX, 32), Is("_"), Of(ALNUM, 20)], AtWord),
    Shape::new("Adyen", &["AQE"], &[Of(BASE64, 60), Is("-"), Of(BASE64, 20), Is("-"), Of(BASE64, 8)], AsWord),
    Shape::new("Mollie, Lob, GoCardless", &["live_"], &[Of(ALNUM, 30)], Mixed),
    Shape::new("Klarna", &["klarna_live_api_", "klarna_test_api_"], &[Of(Class(BASE64.0 | TOKEN.0), 40)], AtWord),
    Shape::new("Xendit", &["xnd_production_", "xnd_development_"], &[Of(ALNUM, 40)], AtWord),
    Shape::new("Midtrans", &["Mid-server-"], &[Of(TOKEN, 20)], AtWord),
    Shape::new("Mercado Pago", &["APP_USR-"], &[Of(TOKEN, 50)], AtWord),
    Shape::new("Omise", &["skey_", "skey_test_"], &[Of(ALNUM, 19)], AtWord),
    Shape::new("Checkout.com", &["sk_sbox_"], &[Of(ALNUM, 20)], AtWord),
    Shape::new("Okta", &["SSWS 00"], &[Of(TOKEN, 40)], Anywhere),
    Shape::new("Cal.com", &["cal_live_"], &[Of(HEX, 32)], AtWord),
    Shape::new("Salesforce session", &["00D"], &[Of(ALNUM, 12), Is("!"), Of(DOTTED, 80)], AtWord),
    Shape::new("dbt", &["dbtc_", "dbtu_"], &[Of(TOKEN, 36)], AtWord),
    Shape::new("PubNub", &["sec-c-"], &[Of(BASE64, 40)], AtWord),
    Shape::new("Asana", &["1/"], &[Of(DIGIT, 13), Is(":"), Of(HEX, 32)], AtWord),
    Shape::new("Asana, new", &["2/"], &[Of(DIGIT, 13), Is("/"), Of(DIGIT, 13), Is(":"), Of(HEX, 32)], AtWord),
    Shape::new("ClickUp", &["pk_"], &[Of(DIGIT, 5), Is("_"), Of(UPPER_OR_DIGIT, 30)], AtWord),
    Shape::new("Plane", &["plane_api_"], &[Of(HEX, 32)], AtWord),
    Shape::new("Retool", &["retool_"], &[Of(ALNUM, 24)], AtWord),
    Shape::new("FullStory", &["na1.", "eu1."], &[Of(BASE64, 50)], AtWord),
    Shape::new("X (Twitter)", &["AAAAAAAAAAAAAAAAAAAAA"], &[Of(ALNUM, 20), Is("%3D"), Of(ALNUM, 20)], AtWord),
    Shape::new("TikTok", &["act."], &[Of(TOKEN, 40), Is("!"), Of(DOTTED, 4)], AtWord),
    Shape::new("Roblox", &["-items.|_"], &[Of(ALNUM, 100)], Anywhere),
    Shape::new("Nostr", &["nsec1"], &[Of(Class(LOWER.0 | DIGIT.0), 58)], AtWord),
    Shape::new("Bitcoin, extended", &["xprv9", "yprv", "zprv", "tprv"], &[Of(ALNUM, 90)], AtWord),
    Shape::new("private key in XML", &["<D>", "<P>", "<Q>", "<DP>", "<DQ>", "<InverseQ>"], &[Of(BASE64, 60)], Anywhere),
    Shape::new("Dependency-Track", &["odt_"], &[Of(ALNUM, 32)], AtWord),
    Shape::new("Flexport", &["shltm_"], &[Of(TOKEN, 40)], AtWord),
    Shape::behind("MaxMind", (WORD, 36, 36), &["_mm"], &[Of(LOWER, 1)]),
    Shape::new("Teamwork", &["tkn.v1_"], &[Of(BASE64, 40)], AtWord),
    Shape::new("Voiceflow", &["VF.DM.", "VF.WS."], &[Of(HEX, 24), Is("."), Of(ALNUM, 16)], AtWord),
    Shape::new("Zoho", &["1000."], &[Of(HEX, 32), Is("."), Of(HEX, 32)], AtWord),
    Shape::new("Ubidots", &["BBFF-", "BBUS-"], &[Of(ALNUM, 30)], AtWord),
    Shape::new("Courier", &["pk_prod_"], &[Of(ALNUM, 28)], AtWord),
    Shape::new("Scrapfly", &["scp-live-"], &[Of(ALNUM, 32)], AtWord),
    Shape::new("minisign", &["RWRTY0Iy"], &[Of(BASE64, 100)], AtWord),
    Shape::new("PostgreSQL, .pgpass", &[":5432:"], &[Of(DOTTED, 1), Is(":"), Of(TOKEN, 1), Is(":"), Of(BEARER, 6)], Anywhere),
];

/// Five groups of digits, as in `123e4567-e89b-12d3-a456-426614174000`.
const UUID: &[Part] = &[Of(HEX, 8), Is("-"), Of(HEX, 4), Is("-"), Of(HEX, 4), Is("-"), Of(HEX, 4), Is("-"), Of(HEX, 12)];

/// Five such groups and what follows.
const UUID_AND_MORE: &[Part] =
    &[Of(HEX, 8), Is("-"), Of(HEX, 4), Is("-"), Of(HEX, 4), Is("-"), Of(HEX, 4), Is("-"), Of(HEX, 12), Is("-"), Of(TOKEN, 30)];

/// The settings, the salt and the hash of yescrypt.
const CRYPT: &[Part] = &[Of(BEARER, 1), Is("$"), Of(BEARER, 1), Is("$"), Of(BEARER, 30)];
/// The settings, the salt and the hash as Werkzeug writes them.
const WERKZEUG: &[Part] =
    &[Of(DIGIT, 1), Is(":"), Of(DIGIT, 1), Is(":"), Of(DIGIT, 1), Is("$"), Of(ALNUM, 8), Is("$"), Of(HEX, 64)];
/// The rounds, the salt and the two keys of SCRAM.
const SCRAM: &[Part] = &[Of(DIGIT, 4), Is(":"), Of(BASE64, 16), Is("$"), Of(BASE64, 27), Is(":"), Of(BASE64, 27)];

const UPPER_OR_DIGIT: Class = Class(UPPER.0 | DIGIT.0);
const UPPERS_DASHED: Class = Class(UPPER_OR_DIGIT.0 | Class::DASH);
