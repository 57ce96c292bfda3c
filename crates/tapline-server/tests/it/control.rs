//! Control of runs that are pushed: only if the server allows it, and only of runs that ask for commands.

use crate::stage::Stage;

const QUESTION: &str = "{\"type\":\"control_request\",\"request_id\":\"q-1\",\"request\":{\"subtype\":\"can_use_tool\",\"tool_name\":\"Bash\",\"input\":{\"command\":\"make deploy\"},\"tool_use_id\":\"t-1\"}}\n";

fn start(stage: &Stage) {
    let init =
        "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"asked\",\"model\":\"m\",\"cwd\":\"/x\",\"tools\":[]}\n";
    let call = "{\"type\":\"assistant\",\"session_id\":\"asked\",\"message\":{\"id\":\"m1\",\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"t-1\",\"name\":\"Bash\",\"input\":{\"command\":\"make deploy\"}}]}}\n";
    assert_eq!(stage.post("/api/v1/ingest/run-1", &[], format!("{init}{call}{QUESTION}").as_bytes()).status, 200);
    stage.until("/api/v1/sessions/asked", |row| {
        (row["state"]["kind"] == "waiting" && row["questions"][0]["id"] == "q-1").then_some(())
    });
}

#[test]
fn a_question_is_answered_on_the_page() {
    let stage = Stage::with(|options| options.allow_control = true);
    start(&stage);
    let row = stage.get("/api/v1/sessions/asked").json().unwrap();
    assert_eq!((row["questions"][0]["tool"].as_str(), row["controllable"].as_bool()), (Some("Bash"), Some(false)), "{row}");
    assert!(row["questions"][0]["summary"].as_str().unwrap().contains("make deploy"), "{row}");
    let answer = |question: &str| {
        stage.post(
            "/api/v1/sessions/asked/answer",
            &[],
            format!("{{\"question\":\"{question}\",\"decision\":\"allow\"}}").as_bytes(),
        )
    };
    assert_eq!(answer("q-1").code(), "out-of-reach", "nobody asks for commands");
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| stage.get("/api/v1/ingest/run-1/commands?after=0").json().unwrap());
        stage.until("/api/v1/sessions/asked", |row| (row["controllable"] == true).then_some(()));
        assert_eq!(answer("q-2").code(), "no-question");
        assert_eq!(
            stage.post("/api/v1/sessions/asked/answer", &[], b"{\"question\":\"q-1\",\"decision\":\"perhaps\"}").code(),
            "bad-request"
        );
        assert_eq!(answer("q-1").status, 200);
        let told = asking.join().unwrap();
        assert_eq!(told["commands"][0]["question"], "q-1");
        assert_eq!((&told["commands"][0]["decision"], &told["commands"][0]["n"]), (&"allow".into(), &1.into()), "{told}");
    });
    for (path, command) in [("interrupt", "interrupt"), ("stop", "stop")] {
        assert_eq!(stage.post(&format!("/api/v1/sessions/asked/{path}"), &[], b"").status, 200);
        let told = stage.get("/api/v1/ingest/run-1/commands?after=1").json().unwrap();
        assert!(told["commands"].as_array().unwrap().iter().any(|one| one["command"] == command), "{told}");
    }
    let send = || stage.post("/api/v1/sessions/asked/message", &[], b"{\"text\":\"and then?\"}");
    assert_eq!(send().code(), "no-messages");
    stage.get("/api/v1/ingest/run-1/commands?after=1&messages=true");
    assert_eq!(send().status, 200);
    let told = stage.get("/api/v1/ingest/run-1/commands?after=3&messages=true").json().unwrap();
    assert_eq!(
        (told["commands"][0]["command"].as_str(), told["commands"][0]["text"].as_str()),
        (Some("message"), Some("and then?"))
    );
    assert_eq!(stage.get("/api/v1/ingest/other/commands").code(), "no-run");
}

#[test]
fn a_server_that_only_watches_changes_nothing() {
    let stage = Stage::new();
    start(&stage);
    let told = stage.get("/api/v1/ingest/run-1/commands").json().unwrap();
    assert_eq!((told["allowed"].as_bool(), told["commands"].as_array().map(Vec::len)), (Some(false), Some(0)));
    for path in ["answer", "interrupt", "stop", "message"] {
        let answer =
            stage.post(&format!("/api/v1/sessions/asked/{path}"), &[], b"{\"question\":\"q-1\",\"decision\":\"allow\"}");
        assert_eq!((answer.status, answer.code().as_str()), (403, "no-control"), "{path}");
    }
    assert_eq!(stage.get("/api/v1/sessions/asked").json().unwrap()["controllable"], false);
}
